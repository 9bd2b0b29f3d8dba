"""Thresholds."""

from __future__ import annotations

from gpugoblin.verify.calibration import (
    SAFETY,
    UNIT_ROUNDOFF,
    carry_weight,
    honest_maximum,
    threshold,
)


def test_grows_with_the_square_root() -> None:
    values = [honest_maximum(inner) for inner in (0, 1, 100, 10_000, 1_000_000)]
    assert values == sorted(values)
    assert values[0] > 0
    assert honest_maximum(4_000_000) < 2.1 * honest_maximum(1_000_000)
    assert threshold(77) == SAFETY * honest_maximum(77)


def test_tight_enough_for_the_promise() -> None:
    """A wrong element of 2e-4 shows with 0.9 of its size against a block of 128 columns, whose
    scale is the root of twice 128 elements."""
    smallest = 0.9 * 2e-4 / (2 * 128) ** 0.5
    assert threshold(16384) < smallest
    assert threshold(16384) > 100 * UNIT_ROUNDOFF


def test_a_carry_counts_more_the_longer_the_sum() -> None:
    weights = [carry_weight(inner) for inner in (0, 1, 1000, 100_000, 10**8)]
    assert weights[0] == 1
    assert weights == sorted(weights)
    assert 3.9 < weights[-1] <= 4
