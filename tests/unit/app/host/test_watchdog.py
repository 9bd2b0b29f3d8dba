"""Limits on time, and the reading of memory."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys

import pytest

from app.host.watchdog import private_bytes, time_limit_s
from gpugoblin.units import MIB


@pytest.mark.parametrize(("predicted_s", "limit_s"), [(0.0, 5.0), (10.0, 25.0), (-3.0, 5.0)])
def test_twice_the_prediction_and_five_seconds(predicted_s: float, limit_s: float) -> None:
    assert time_limit_s(predicted_s) == limit_s


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
