"""The disk's rate: measured for large results only, remembered, never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugoblin.units import MIB
from server_stub.node import disk_rate
from server_stub.node.disk_rate import GUESSED_BYTES_PER_S, LARGE_BYTES, DiskRate, measure


def test_a_measurement_leaves_nothing(tmp_path: Path) -> None:
    assert measure(tmp_path, 2 * MIB) > 0
    assert list(tmp_path.iterdir()) == []


def test_it_is_measured_once_and_for_large_results_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Path] = []

    def fake(directory: Path) -> float:
        measured.append(directory)
        return 7e8

    monkeypatch.setattr(disk_rate, "measure", fake)
    rate = DiskRate(tmp_path)
    assert rate.bytes_per_s(LARGE_BYTES - 1) == GUESSED_BYTES_PER_S
    assert measured == []
    assert [rate.bytes_per_s(LARGE_BYTES) for _ in range(2)] == [7e8, 7e8]
    assert rate.bytes_per_s(1) == 7e8
    assert measured == [tmp_path]
    rate._at_s -= disk_rate.FRESH_S + 1
    rate.bytes_per_s(LARGE_BYTES)
    assert len(measured) == 2


def test_a_directory_that_takes_nothing_is_guessed(tmp_path: Path) -> None:
    assert DiskRate(tmp_path / "none").bytes_per_s(LARGE_BYTES) == GUESSED_BYTES_PER_S
