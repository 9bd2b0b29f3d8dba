"""Games and listed programs, by their processes.

Owns: what a game's process looks like, and the scan of /proc: only processes that are new are
looked at. Must not: read another user's secrets: only names and command lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from app.policy.snapshot import PlayFacts
from app.probes.polls import Pace

__all__ = ["ProcessProbe", "game_of"]

PROC: Final = Path("/proc")
MAX_COMMAND_BYTES: Final = 16 * 1024

_STEAM: Final = re.compile(rb"(?:^|\0)SteamLaunch\0AppId=(\d{1,10})(?:\0|$)")
_LAUNCHERS: Final = {
    b"gamescope": "gamescope",
    b"gamescope-wl": "gamescope",
    b"lutris-wrapper": "Lutris",
    b"legendary": "Heroic",
    b"gogdl": "Heroic",
    b"nile": "Heroic",
    b"pv-bwrap": "Proton",
    b"pressure-vessel": "Proton",
    b"wineserver": "Wine",
    b"wineserver64": "Wine",
}
_LAUNCH_WORDS: Final = {b"legendary": b"launch", b"gogdl": b"launch", b"nile": b"launch"}
"""Helpers that do other things, too: only with this word they start a game."""


def game_of(command: bytes) -> str:
    """What a command line tells about a game; empty for no game.

    Args:
        command: as in /proc/PID/cmdline: words that end in a zero byte.
    """
    found = _STEAM.search(command)
    if found is not None:
        return f"Steam app {found[1].decode()}"
    words = command.split(b"\0", 64)
    for word in words[:3]:
        name = word.rpartition(b"/")[2]
        launcher = _LAUNCHERS.get(name)
        if launcher is not None and _LAUNCH_WORDS.get(name, b"") in (b"", *words):
            return f"{launcher} game"
    windows = words[0].replace(b"\\", b"/").rpartition(b"/")[2]
    if windows.lower().endswith(b".exe") and b":" in words[0][:3]:
        return windows.decode("utf-8", "replace")
    return ""


class ProcessProbe:
    """Looks for games among all processes.

    Args:
        listed: the owner's own names, asked at every look.
    """

    name = "play"
    source = "processes"
    periods_s: dict[Pace, float]

    def __init__(self, listed: Callable[[], Iterable[str]], root: Path = PROC) -> None:
        self.periods_s = {"off": 60.0, "waiting": 7.5, "lending": 0.5}
        self._listed = listed
        self._root = root
        self._known: dict[str, tuple[bytes, str]] = {}
        self._again: set[str] = set()

    def look(self) -> PlayFacts:
        """All games that run. A new process is looked at twice: it may not have its name yet."""
        pids = {name for name in os.listdir(self._root) if name.isdigit()}
        for gone in self._known.keys() - pids:
            del self._known[gone]
        fresh = pids - self._known.keys()
        for pid in fresh | (self._again & pids):
            command = self._command(pid)
            name = command.partition(b"\0")[0].rpartition(b"/")[2]
            self._known[pid] = (name, game_of(command))
        self._again = fresh
        names = {os.fsencode(name) for name in self._listed()}
        games = sorted({game for _, game in self._known.values() if game})
        listed = sorted({os.fsdecode(name) for name, _ in self._known.values() if name in names})
        return PlayFacts(tuple(games), "", tuple(listed))

    def _command(self, pid: str) -> bytes:
        try:
            with (self._root / pid / "cmdline").open("rb", buffering=0) as file:
                return file.read(MAX_COMMAND_BYTES) or b""
        except OSError:
            return b""
