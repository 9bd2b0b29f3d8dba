"""Estimates: which side of the comparison counts what."""

from __future__ import annotations

import pytest

from gpugoblin.plan.spec import PlanSummary
from server_stub.node.estimate import GUESSED_FLOPS_PER_S, as_reply, times
from server_stub.node.executors.base import Fleet

__all__: list[str] = []

SUMMARY = PlanSummary("product", 10, 10**12, 10**11, 10**6, 10**6, 10**6, (4, 4))
LOCAL = Fleet(1, 1 << 30, 1 << 28, 2, 1e11, 1e9, 0)
GRID = Fleet(10, 1 << 30, 1 << 28, 1, 1e12, 1e8, 0)
NOBODY = Fleet(0, 1 << 30, 1 << 28, 1, 0.0, 0.0, 0)


def test_alone_is_compute_or_disk_whichever_is_longer() -> None:
    assert times(SUMMARY, 0, "local", LOCAL, GRID, 0.0, 1e12).alone_s == pytest.approx(10.0)
    large = PlanSummary("product", 1, 1, 1, 10**11, 10**11, 1, ())
    # Reading hides behind computing, synced writing does not: 200 s each at 5e8 bytes/s.
    assert times(large, 0, "local", LOCAL, GRID, 0.0, 5e8).alone_s == pytest.approx(400.0)


def test_local_pays_for_its_checks() -> None:
    assert times(SUMMARY, 0, "local", LOCAL, GRID, 0.0, 1e12).seconds == pytest.approx(
        11.0, rel=1e-3
    )


def test_the_grid_pays_for_the_link_and_the_start() -> None:
    quick = times(SUMMARY, 10**7, "grid", LOCAL, GRID, 5.0, 1e12)
    assert quick.seconds == pytest.approx(6.0, rel=1e-3)
    assert quick.gain == pytest.approx(10.0 / 6.0, rel=1e-3)
    slow = times(SUMMARY, 10**10, "grid", LOCAL, GRID, 5.0, 1e12)
    assert slow.seconds == pytest.approx(105.0)
    assert slow.gain < 1.0


def test_writes_count_at_the_measured_rate_on_both_sides() -> None:
    large = PlanSummary("product", 10, 10**12, 10**11, 10**6, 10**10, 10**6, (4, 4))
    local = times(large, 0, "local", LOCAL, GRID, 0.0, 1e9)
    assert local.alone_s == pytest.approx(10.0 + 10.0)
    assert local.seconds == pytest.approx(11.0 + 5.0 + 10.0, rel=1e-3)  # checks, hashes, writes
    grid = times(large, 0, "grid", LOCAL, GRID, 0.0, 1e9)
    assert grid.seconds == pytest.approx(1.0 + 5.0 + 10.0, rel=1e-3)


def test_nobody_known_is_nothing_to_compare_with() -> None:
    found = times(SUMMARY, 10**7, "grid", LOCAL, NOBODY, 5.0, 1e12)
    assert found.seconds == pytest.approx(15.0)


def test_an_unmeasured_engine_is_guessed_by_its_threads() -> None:
    unknown = Fleet(1, 1, 1, 2, 0.0, 0.0, 0)
    found = times(SUMMARY, 0, "local", unknown, NOBODY, 0.0, 1e12)
    assert found.alone_s == pytest.approx(1e12 / (2 * GUESSED_FLOPS_PER_S))


def test_the_reply_carries_the_figures() -> None:
    reply = as_reply(SUMMARY, times(SUMMARY, 0, "local", LOCAL, GRID, 0.0, 1e12), "local", 77)
    assert (reply.tasks, reply.tile, reply.node_memory_bytes) == (10, (4, 4), 77)
    assert reply.executor == "local"
