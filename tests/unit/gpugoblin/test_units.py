"""Figures written for people."""

from __future__ import annotations

import pytest

from gpugoblin.units import GIB, format_bytes, format_flops, format_ratio, format_seconds


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (GIB, "1 GiB"), (5000 * GIB, "4.88 TiB")],
)
def test_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(12, "12 flop"), (2.5e9, "2.5 Gflop"), (8.8e12, "8.8 Tflop")]
)
def test_flops(count: float, text: str) -> None:
    assert format_flops(count) == text


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0.0123, "0.0123 s"), (59.94, "59.9 s"), (75, "1 min 15 s"), (3700, "1 h 1 min")],
)
def test_seconds(duration_s: float, text: str) -> None:
    assert format_seconds(duration_s) == text


def test_ratios() -> None:
    assert [format_ratio(one) for one in (0.0, 1e-9, 0.51234, 2.0, 12345.6)] == [
        "0", "under 0.001", "0.512", "2", "12,346",
    ]  # fmt: skip
