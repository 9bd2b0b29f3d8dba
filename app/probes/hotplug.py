"""Cards, supplies and input devices that come and go, by the kernel's own messages (udev).

Owns: the monitor. Must not: look at what came; others look again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any, Final

__all__ = ["CARDS", "HotPlug"]

CARDS: Final = ("drm", "nvidia")
SUBSYSTEMS: Final = (*CARDS, "power_supply", "input", "hwmon")
MOST_AT_ONCE: Final = 256


class HotPlug:
    """Watches in the loop's thread.

    Args:
        changed: called with the subsystem when something came or went.
        monitor: another one is for tests: it has `fileno()` and `poll(timeout)`.
    """

    def __init__(self, changed: Callable[[str], None], monitor: Any = None) -> None:
        self._changed = changed
        self._monitor = monitor
        self._descriptor = -1

    def start(self) -> str:
        """Begins to watch; why it cannot, empty when it can."""
        try:
            if self._monitor is None:
                self._monitor = _monitor()
            self._descriptor = self._monitor.fileno()
        except Exception as error:  # no libudev, no netlink in this container: whatever it says
            return f"hot-plug is not seen ({type(error).__name__}: {error})"[:300]
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return ""

    def _read(self) -> None:
        names: set[str] = set()
        for _ in range(MOST_AT_ONCE):
            try:
                device = self._monitor.poll(timeout=0)
            except OSError:
                # More came than the kernel keeps for one reader: what it was is lost.
                names.update(SUBSYSTEMS)
                if _take_error(self._descriptor) != errno.ENOBUFS:
                    self.close()  # what nobody can read is not waited for; the looks have periods
                break
            if device is None:
                break
            names.add(str(device.subsystem))
        for name in sorted(names):
            self._changed(name)

    def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._descriptor = -1
        self._monitor = None  # its socket goes with it


def _take_error(descriptor: int) -> int:
    """The error of a socket, which it loses thereby; 0 for none, and for what is no socket."""
    copy = os.dup(descriptor)
    try:
        same = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return 0
    with same:
        return same.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def _monitor() -> Any:
    import pyudev

    monitor = pyudev.Monitor.from_netlink(pyudev.Context())
    for name in SUBSYSTEMS:
        monitor.filter_by(name)
    monitor.start()
    return monitor
