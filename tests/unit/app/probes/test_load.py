"""What others use: ours is taken off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.probes import load
from app.probes.load import LoadProbe


def test_ours_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = iter([(10.0, 100.0), (15.0, 110.0), (21.0, 120.0), (25.0, 130.0)])
    spent = iter([1.0, 4.0, 5.0])
    pids: list[int] = [7]
    monkeypatch.setattr(load, "_whole", lambda: next(whole))
    monkeypatch.setattr(load, "_spent_s", lambda pid: next(spent))
    probe = LoadProbe(tmp_path, lambda: pids)
    assert probe.look().processor_percent == 0.0
    assert probe.look().processor_percent == 20.0
    assert probe.look().processor_percent == 50.0
    pids.clear()  # an engine ended, and what it did last is not known: nothing new is said
    assert probe.look().processor_percent == 50.0


def test_real_figures(tmp_path: Path) -> None:
    facts: Any = LoadProbe(tmp_path, lambda: [1, 99_999_999]).look()
    assert facts.memory_free_bytes > 0
    assert facts.disk_free_bytes > 0


STAT = "cpu  100 20 30 400 50 6 7 8 90 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n"


def test_the_kernels_words(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(STAT)
    busy_s, total_s = load._whole(tmp_path)
    assert busy_s / load.TICK_S == pytest.approx(100 + 20 + 30 + 6 + 7 + 8)
    assert total_s / load.TICK_S == pytest.approx(621)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a ) R 1) S " + " ".join(map(str, range(4, 30))))
    assert load._spent_s(7, tmp_path) == pytest.approx((14 + 15) * load.TICK_S)
    assert load._spent_s(8, tmp_path) is None
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemAvailable:  2048 kB\n")
    assert load._available_bytes(tmp_path) == 2 * 2**20


@pytest.mark.parametrize(
    "text", ["", "cpu", "cpu 1 2 3", "intr 1 2 3 4 5 6", "cpu a b c d e f g h"]
)
def test_a_kernel_that_says_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    (tmp_path / "meminfo").write_text(text)
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says, the probe is unknown then
        load._whole(tmp_path)
    with pytest.raises(ValueError, match="how much memory"):
        load._available_bytes(tmp_path)


def test_real_figures_agree_with_an_independent_reader() -> None:
    import psutil

    own_s = sum(psutil.Process().cpu_times()[:2])
    assert load._spent_s(psutil.Process().pid) == pytest.approx(own_s, abs=1.0)
    assert load._available_bytes() == pytest.approx(psutil.virtual_memory().available, rel=0.3)
