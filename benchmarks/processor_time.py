"""Processor time of a family of processes, by what each of them is.

Owns: `by_role`. On a machine that others use as well, only such figures say something.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.memory import find_processes

__all__ = ["by_role", "since"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def by_role(text: str) -> dict[str, float]:
    """Seconds of every process that `find_processes(text)` finds, by module and role."""
    found: dict[str, float] = {}
    for pid in find_processes(text):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        seconds = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        role = _role(words)
        found[role] = found.get(role, 0.0) + seconds
    return found


def _role(words: list[str]) -> str:
    name = words[words.index("-m") + 1] if "-m" in words[:-1] else Path(words[0]).name
    kind = words[words.index("--kind") + 1] if "--kind" in words[:-1] else ""
    return f"{name} {kind}".strip()


def since(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What each role took between two looks, largest first."""
    taken = {role: after[role] - before.get(role, 0.0) for role in after}
    return dict(sorted(taken.items(), key=lambda pair: -pair[1]))
