"""What others use of the processor, the memory and the disk of the cache.

Owns: those three figures, with our own processes taken off. Must not: know a limit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import psutil

from app.policy.snapshot import LoadFacts
from app.probes.polls import Pace
from gpugoblin.units import MIB

__all__ = ["LoadProbe"]

PERCENT_GRAIN: Final = 5
MEMORY_GRAIN_BYTES: Final = 64 * MIB
DISK_GRAIN_BYTES: Final = 256 * MIB
"""Told in grains, so that nobody wakes for every page."""


class LoadProbe:
    """Looks at the whole machine.

    Args:
        disk: a folder on the disk of the cache.
        ours: the processes that are ours (the agent and its engines).
    """

    name = "load"
    source = "kernel"
    periods_s: dict[Pace, float]

    def __init__(self, disk: Path, ours: Callable[[], Iterable[int]]) -> None:
        self.periods_s = {"off": 60.0, "waiting": 15.0, "lending": 2.0}
        self._disk = disk
        self._ours = ours
        self._last: tuple[float, float, dict[int, float]] | None = None
        self._percent = 0.0

    def look(self) -> LoadFacts:
        """The share since the last look; 0 at the first one."""
        busy_s, total_s = _whole()
        own = {pid: spent for pid in self._ours() if (spent := _spent_s(pid)) is not None}
        is_comparable = self._last is not None and self._last[2].keys() <= own.keys()
        if self._last is not None and is_comparable:  # what ours did before they ended is not known
            busy_before_s, total_before_s, own_before = self._last
            elapsed_s = total_s - total_before_s
            ours_s = sum(spent - own_before.get(pid, 0.0) for pid, spent in own.items())
            if elapsed_s > 0.05:
                others_s = max(0.0, busy_s - busy_before_s - ours_s)
                self._percent = min(100.0, 100.0 * others_s / elapsed_s)
        self._last = (busy_s, total_s, own)
        memory_bytes = psutil.virtual_memory().available
        disk = os.statvfs(self._disk)
        disk_bytes = disk.f_bavail * disk.f_frsize
        return LoadFacts(
            float(round(self._percent / PERCENT_GRAIN) * PERCENT_GRAIN),
            memory_bytes // MEMORY_GRAIN_BYTES * MEMORY_GRAIN_BYTES,
            disk_bytes // DISK_GRAIN_BYTES * DISK_GRAIN_BYTES,
        )


def _whole() -> tuple[float, float]:
    """Seconds that all processors were busy, and those that passed on all of them."""
    times = psutil.cpu_times()
    idle_s = times.idle + getattr(times, "iowait", 0.0)
    total_s = sum(
        getattr(times, name, 0.0)
        for name in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    )
    return total_s - idle_s, total_s


def _spent_s(pid: int) -> float | None:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)
