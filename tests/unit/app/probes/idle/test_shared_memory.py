"""idle_detect's memory: fresh, stale, nonsense."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from app.probes.idle.shared_memory import SharedMemoryProbe
from app.probes.idle.source import Input


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (struct.pack("=qq", 990, 700), Input(700.0)),
        (struct.pack("=qq", 900, 700), None),
        (struct.pack("=qq", 990, 5000), None),
        (struct.pack("=qq", 990, -5), None),
        (b"short", None),
        (struct.pack("=qq", 990, 1003), Input(1000.0)),
    ],
)
def test_readings(tmp_path: Path, data: bytes, told: Input | None) -> None:
    path = tmp_path / "shm"
    path.write_bytes(data)
    assert SharedMemoryProbe(lambda: 1000.0, path).look() == told


def test_where_it_is_not(tmp_path: Path) -> None:
    assert SharedMemoryProbe(lambda: 1000.0, tmp_path / "no").look() is None
