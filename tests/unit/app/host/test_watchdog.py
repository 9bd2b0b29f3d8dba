"""Limits on time, and the reading of memory."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys

import pytest

from app.host.watchdog import Watch, private_bytes, time_limit_s
from gpugoblin.units import MIB


@pytest.mark.parametrize(("predicted_s", "limit_s"), [(0.0, 5.0), (10.0, 25.0), (-3.0, 5.0)])
def test_twice_the_prediction_and_five_seconds(predicted_s: float, limit_s: float) -> None:
    assert time_limit_s(predicted_s) == limit_s


def test_an_answer_is_due_from_the_launch_on_and_after_each_question() -> None:
    watch = Watch(100.0, 20.0)
    assert [watch.is_silent(now_s) for now_s in (120.0, 120.1)] == [False, True]
    watch.answered()
    assert not watch.is_silent(1000.0)
    watch.asked(1000.0)
    assert [watch.is_silent(now_s) for now_s in (1020.0, 1020.1)] == [False, True]


def test_time_stands_still_for_answers_tasks_and_cancelled_ones() -> None:
    watch = Watch(0.0, 20.0)
    watch.begins(0.0)
    assert watch.cancels(1, 0.0)
    assert not watch.cancels(1, 5.0)
    assert watch.freeze(1.0)
    assert not watch.freeze(2.0)
    assert not watch.is_silent(500.0)
    assert watch.overrun_s(500.0, 1, 100.0) is None
    assert watch.thaw(501.0)
    assert not watch.thaw(502.0)
    assert [watch.is_silent(now_s) for now_s in (520.0, 520.1)] == [False, True]
    assert [watch.overrun_s(now_s, 1, 100.0) for now_s in (510.0, 510.1)] == [None, 10.0]
    watch.ends(1)
    assert [watch.overrun_s(now_s, 1, 100.0) for now_s in (705.0, 705.1)] == [None, 205.0]


def test_anonymous_memory_counts() -> None:
    before = private_bytes(os.getpid(), 0)
    # A mapping of its own: a bytes object may lie in memory that an earlier test left free.
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:
        kept.write(b"x" * (64 * MIB))
        after = private_bytes(os.getpid(), 0)
    assert before is not None
    assert after is not None
    assert after - before > 60 * MIB


def test_shared_memory_counts_beyond_the_arenas() -> None:
    with mmap.mmap(-1, 32 * MIB) as shared:  # MAP_SHARED | MAP_ANONYMOUS: no RLIMIT_DATA sees it
        shared.write(b"x" * (32 * MIB))
        counted = private_bytes(os.getpid(), 0)
        allowed = private_bytes(os.getpid(), 64 * MIB)
        assert counted is not None
        assert allowed is not None
        assert counted - allowed >= 31 * MIB


def test_a_process_that_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert private_bytes(process.pid, 0) is None
