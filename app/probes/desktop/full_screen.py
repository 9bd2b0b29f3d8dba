"""Which program fills the screen of an X server.

Owns: the active window, its state and its process. Must not: read a window's contents or its title.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from app.probes.desktop.xconnection import XConnection

__all__ = ["FullScreen"]

PROPERTY_NOTIFY: Final = 28
_NAMES: Final = ("_NET_ACTIVE_WINDOW", "_NET_WM_STATE", "_NET_WM_STATE_FULLSCREEN", "_NET_WM_PID")


class FullScreen:
    """Follows the active window. `start` first, then `take` for every event.

    Args:
        name_of: the name of a process's program.
    """

    def __init__(self, connection: XConnection, name_of: Callable[[int], str]) -> None:
        self._connection = connection
        self._name_of = name_of
        self._active, self._state, self._full, self._pid = (0, 0, 0, 0)
        self._window = 0

    async def start(self) -> str:
        """The program that fills the screen now; empty for none. Raises XError."""
        x = self._connection
        self._active, self._state, self._full, self._pid = [await x.atom(n) for n in _NAMES]
        x.watch_properties(x.root)
        return await self._look()

    async def take(self, event: bytes) -> str | None:
        """The program after an event; None when the event is about something else."""
        if event[0] & 0x7F != PROPERTY_NOTIFY:
            return None
        window, name = struct.unpack_from("<II", event, 4)
        if (window, name) not in ((self._connection.root, self._active),
                                  (self._window, self._state)):  # fmt: skip
            return None
        return await self._look()

    async def _look(self) -> str:
        x = self._connection
        window = next(iter(await x.numbers(x.root, self._active)), 0)
        if window and window != self._window:
            x.watch_properties(window)
        self._window = window
        if not window or self._full not in await x.numbers(window, self._state):
            return ""
        pid = next(iter(await x.numbers(window, self._pid)), 0)
        return (self._name_of(pid) if pid else "") or "a program"
