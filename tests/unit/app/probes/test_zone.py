"""The zone follows the machine."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.probes.zone import LocalZone

ZONES = Path("/usr/share/zoneinfo")


def test_the_variable_wins_and_nonsense_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    zone = LocalZone()
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert datetime(2026, 7, 1, tzinfo=zone()).utcoffset().seconds == 7200  # type: ignore[union-attr]
    monkeypatch.setenv("TZ", "No/Where")
    assert zone() is UTC


@pytest.mark.skipif(not (ZONES / "Asia/Tokyo").exists(), reason="this machine has no zone files")
def test_the_file_is_read_again_when_its_owner_travels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    path = tmp_path / "localtime"
    zone = LocalZone(path)
    assert zone() is UTC
    path.write_bytes((ZONES / "Asia/Tokyo").read_bytes())
    assert datetime(2026, 7, 1, tzinfo=zone()).utcoffset().seconds == 9 * 3600  # type: ignore[union-attr]
    path.write_bytes((ZONES / "Europe/Berlin").read_bytes())
    os.utime(path, ns=(1, 1))
    assert datetime(2026, 7, 1, tzinfo=zone()).utcoffset().seconds == 7200  # type: ignore[union-attr]
