"""Resident memory of a family of processes, sampled while something else runs.

Owns: `MemoryWatch` and the PSS of a process. PSS counts a shared page once over all that share it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

__all__ = ["MemoryWatch", "descendants", "find_processes", "pss_bytes"]


def descendants(root: int) -> list[int]:
    """Process ids of a process and all that it started."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found, todo = [], [root]
    while todo:
        one = todo.pop()
        found.append(one)
        todo.extend(parents.get(one, ()))
    return found


def find_processes(text: str) -> list[int]:
    """Processes whose command line contains `text`, and all that they started."""
    found: set[int] = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            command = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in command:
            found.update(descendants(int(entry)))
    return sorted(found)


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process, 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


class MemoryWatch:
    """The largest sum of PSS over the processes that `pids` names, looked at once a second."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self.peak_bytes = 0
        self._pids = pids
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._stop.wait(1.0):
            self.peak_bytes = max(self.peak_bytes, sum(pss_bytes(pid) for pid in self._pids()))

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
