"""Terminals and consoles: when anybody last typed in one. New terminals count at once.

Owns: the times of last reading of terminal devices (the kernel keeps them to 8 seconds). Must not:
look at what is written or typed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from app.probes.idle.source import Input
from app.probes.polls import Pace

__all__ = ["TerminalProbe"]

DEVICES: Final = Path("/dev")
MOST_TERMINALS: Final = 4096


class TerminalProbe:
    """Looks at all terminals, listed anew every time.

    Args:
        now_s: Unix seconds: a time of last reading from the future counts as now.
    """

    name = "terminals"
    source = "terminals"
    periods_s: dict[Pace, float]

    def __init__(self, now_s: Callable[[], float], root: Path = DEVICES) -> None:
        self.periods_s = {"off": 60.0, "waiting": 7.5, "lending": 0.5}
        self._now_s = now_s
        self._root = root

    def look(self) -> Input:
        """The latest input in any terminal; never where there is none."""
        latest_s = 0.0
        for path in self._terminals():
            try:
                facts = os.stat(path)
            except OSError:
                continue
            if stat.S_ISCHR(facts.st_mode):
                latest_s = max(latest_s, facts.st_atime)
        return Input(min(latest_s, self._now_s()))

    def _terminals(self) -> list[str]:
        found: list[str] = []
        for folder, prefix in ((self._root / "pts", ""), (self._root, "tty")):
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        rest = entry.name.removeprefix(prefix)
                        if entry.name.startswith(prefix) and rest.isdigit():
                            found.append(entry.path)
            except OSError:
                continue
        return found[:MOST_TERMINALS]
