"""Estimates: what shares cores or a disk is added up, what does not goes on side by side."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpugoblin.errors import PlanError
from gpugoblin.plan.estimate import Estimate, GridRates, NodeRates, estimate, require_gain
from gpugoblin.plan.spec import PlanSummary

SUMMARY = PlanSummary("product", 100, 10**13, 10**12, 10**9, 10**10, 10**6, (4, 4))
NODE = NodeRates(1e11, 1e9, 5e8, hash_bytes_per_s=1e10)


def test_the_own_engine_pays_for_computing_checks_hashes_and_writes() -> None:
    found = estimate(SUMMARY, NODE)
    assert found.seconds == pytest.approx(100 + 10 + 1.1 + 20)
    assert found.alone_s == pytest.approx(100 + 20)
    assert found.gain == pytest.approx(120 / 131.1)


def test_reading_hides_behind_computing_until_it_is_slower() -> None:
    slow = replace(NODE, read_bytes_per_s=1e6)
    assert estimate(SUMMARY, slow).seconds == pytest.approx(1000 + 20)
    assert estimate(SUMMARY, slow).alone_s == pytest.approx(1000 + 20)


@pytest.mark.parametrize(
    ("grid", "moved_bytes", "seconds"),
    [
        (GridRates(10, 1e12, 1e9), 0, 31.1),  # the node checks, hashes and writes
        (GridRates(10, 1e11, 1e9), 0, 100.0),  # the cards compute
        (GridRates(10, 1e12, 1e7), 10**9, 100.0),  # the links
        (GridRates(1000, 1e12, 1e9), 0, 100.0),  # more cards than tasks: the last one
    ],
)
def test_on_the_grid_the_slowest_sets_the_pace(
    grid: GridRates, moved_bytes: int, seconds: float
) -> None:
    found = estimate(SUMMARY, NODE, grid, moved_bytes=moved_bytes, start_s=5.0)
    assert found.seconds == pytest.approx(5.0 + seconds)
    assert found.alone_s == pytest.approx(120)


def test_a_rate_of_nothing_takes_for_ever_and_nothing_takes_no_time() -> None:
    assert estimate(SUMMARY, replace(NODE, write_bytes_per_s=0.0)).seconds == math.inf
    empty = PlanSummary("product", 0, 0, 0, 0, 0, 0, ())
    found = estimate(empty, replace(NODE, write_bytes_per_s=0.0))
    assert (found.seconds, found.gain) == (0.0, 1.0)


def test_no_gain_is_refused_unless_forced() -> None:
    require_gain(Estimate(5.0, 10.0), forced=False)
    require_gain(Estimate(10.0, 5.0), forced=True)
    with pytest.raises(PlanError) as caught:
        require_gain(Estimate(10.0, 5.0), forced=False)
    assert caught.value.code == "plan_no_gain"
