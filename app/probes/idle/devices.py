"""Input devices themselves: any event of a keyboard, a mouse, a joystick is a person.

Owns: the open devices of /dev/input (only where this user may read them) and that something came.
Must not: look at what was typed: the bytes are thrown away unseen.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["DeviceWatch"]

INPUT: Final = Path("/dev/input")
MOST_DEVICES: Final = 256
READ_BYTES: Final = 64 * 1024


class DeviceWatch:
    """Watches in the loop's thread.

    Args:
        came: called when an event came.
    """

    def __init__(self, came: Callable[[], None], root: Path = INPUT) -> None:
        self._came = came
        self._root = root
        self._open: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many devices are watched."""
        return len(self._open)

    def look(self) -> None:
        """Opens devices that are new."""
        loop = asyncio.get_running_loop()
        for path in sorted(self._root.glob("event*"))[:MOST_DEVICES]:
            name = str(path)
            if name in self._open:
                continue
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            self._open[name] = descriptor
            loop.add_reader(descriptor, self._read, name, descriptor)

    def _read(self, name: str, descriptor: int) -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._came()
        else:
            self._forget(name)

    def _forget(self, name: str) -> None:
        descriptor = self._open.pop(name)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    def close(self) -> None:
        """Lets all devices go."""
        for name in list(self._open):
            self._forget(name)
