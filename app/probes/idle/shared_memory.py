"""The shared memory of the daemon idle_detect: two 64-bit numbers, when it was written and when the
last input was.

Owns: reading it with a bound and telling a stale one. Must not: write.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from app.probes.idle.source import Input
from app.probes.polls import Pace

__all__ = ["SharedMemoryProbe"]

PATH: Final = Path("/dev/shm/idle_detect_shmem")  # noqa: S108 - the place is that daemon's choice
FRESH_S: Final = 60.0
_LAYOUT: Final = struct.Struct("=qq")


class SharedMemoryProbe:
    """Looks at the memory, where it is."""

    name = "idle_detect"
    source = "idle_detect"
    periods_s: dict[Pace, float]

    def __init__(self, now_s: Callable[[], float], path: Path = PATH) -> None:
        self.periods_s = {"off": 60.0, "waiting": 15.0, "lending": 1.0}
        self._now_s = now_s
        self._path = path

    def look(self) -> Input | None:
        """None where it is not there, stale or nonsense."""
        try:
            with self._path.open("rb", buffering=0) as file:
                data = file.read(_LAYOUT.size) or b""
        except OSError:
            return None
        if len(data) < _LAYOUT.size:
            return None
        updated_s, last_s = _LAYOUT.unpack(data)
        now_s = self._now_s()
        is_sane = 0 <= last_s <= now_s + 5 and abs(now_s - updated_s) < FRESH_S
        return Input(float(min(last_s, now_s))) if is_sane else None
