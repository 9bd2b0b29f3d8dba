"""What others use of the processor, the memory and the disk of the cache.

Owns: those three figures, with our own processes taken off. Must not: know a limit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from app.policy.snapshot import LoadFacts
from app.probes.files import read_text
from app.probes.polls import Pace
from gpugoblin.units import MIB

__all__ = ["LoadProbe"]

PROC: Final = Path("/proc")
TICK_S: Final = 1.0 / os.sysconf("SC_CLK_TCK")
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
        """The share since the last look; 0 at the first one.

        Raises:
            ValueError: the kernel says something else than it does.
        """
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
        memory_bytes = _available_bytes()
        disk = os.statvfs(self._disk)
        disk_bytes = disk.f_bavail * disk.f_frsize
        return LoadFacts(
            float(round(self._percent / PERCENT_GRAIN) * PERCENT_GRAIN),
            memory_bytes // MEMORY_GRAIN_BYTES * MEMORY_GRAIN_BYTES,
            disk_bytes // DISK_GRAIN_BYTES * DISK_GRAIN_BYTES,
        )


def _whole(proc: Path = PROC) -> tuple[float, float]:
    """Seconds that all processors were busy, and those that passed on all of them (proc(5)).

    Raises:
        ValueError: the kernel says something else.
    """
    name, *fields = (read_text(proc / "stat") or "").partition("\n")[0].split()
    # user, nice, system, idle, iowait, irq, softirq, steal; guests are in the first two
    ticks = [int(field) for field in fields[:8]]
    if name != "cpu" or len(ticks) < 5:
        raise ValueError("the kernel does not say how busy the processors are")
    total = sum(ticks)
    return (total - ticks[3] - ticks[4]) * TICK_S, total * TICK_S


def _spent_s(pid: int, proc: Path = PROC) -> float | None:
    """Seconds of the processor that a process has taken; None when it is gone."""
    # Its name comes second, in parentheses, and may contain any of them.
    fields = (read_text(proc / str(pid) / "stat") or "").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S if len(fields) > 12 else None


def _available_bytes(proc: Path = PROC) -> int:
    """Memory that programs may have without swapping. Raises ValueError as `_whole`."""
    for line in (read_text(proc / "meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise ValueError("the kernel does not say how much memory is free")
