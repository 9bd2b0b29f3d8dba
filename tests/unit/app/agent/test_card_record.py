"""What is remembered of a card: kept, per driver, and no stumbling block when it is damaged."""

from __future__ import annotations

import queue
import stat
import threading
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from app.agent.card_record import MOST_CARDS, CardRecord, CardRecords, record_key
from tests.helpers.stub_engine import READY


def proven(record: CardRecord) -> CardRecord:
    return msgspec.structs.replace(record, proven_s=5.0)


def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    CardRecords(tmp_path).change("gpu", "key", proven)
    found = CardRecords(tmp_path).known("gpu", "key")
    assert found == CardRecord("key", 5.0)
    assert stat.S_IMODE((tmp_path / "cards.json").stat().st_mode) == 0o600


def test_with_another_driver_the_card_is_as_new(tmp_path: Path) -> None:
    records = CardRecords(tmp_path)
    records.change("gpu", "old driver", proven)
    assert records.known("gpu", "new driver") == CardRecord("new driver")
    seen: list[CardRecord] = []
    records.change("gpu", "new driver", lambda record: (seen.append(record), record)[1])
    assert seen == [CardRecord("new driver")]
    assert records.of("gpu").key == "new driver"


def test_a_damaged_file_is_as_none_and_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "cards.json"
    for damage in (b"", b"{", b'{"cards": {"gpu": {"proven_s": "x"}}}', b"\xff" * 100):
        path.write_bytes(damage)
        records = CardRecords(tmp_path)
        assert records.of("gpu") == CardRecord()
        records.change("gpu", "key", proven)
        assert CardRecords(tmp_path).of("gpu").proven_s == 5.0


def test_what_cannot_be_written_is_known_until_the_end(tmp_path: Path) -> None:
    for records in (CardRecords(tmp_path / "missing"), CardRecords(None)):
        records.change("gpu", "key", proven)
        assert records.of("gpu").proven_s == 5.0


def test_nobody_waits_for_the_disk_who_only_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, seen = CardRecords(tmp_path), queue.SimpleQueue[float]()

    def slow(path: Path, value: object) -> None:
        asking = threading.Thread(target=lambda: seen.put(records.of("gpu").proven_s), daemon=True)
        asking.start()
        asking.join(10.0)

    monkeypatch.setattr("app.agent.card_record.write_kept", slow)
    records.change("gpu", "key", proven)
    assert seen.get_nowait() == 5.0


def test_it_does_not_grow_without_end(tmp_path: Path) -> None:
    records = CardRecords(tmp_path)
    for number in range(MOST_CARDS + 3):
        records.change(f"gpu-{number}", "key", proven)
    again = CardRecords(tmp_path)
    assert again.of("gpu-0") == CardRecord()
    assert again.of(f"gpu-{MOST_CARDS + 2}").proven_s == 5.0


def test_the_key_tells_driver_and_kernels_apart() -> None:
    names = ("driver", "build", "kernel_set")
    others = [replace(READY, **{name: "ef" * 32}) for name in names]
    assert len({record_key(ready) for ready in (READY, *others)}) == 4
