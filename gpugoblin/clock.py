"""Time as a thing that is passed in. Owns the protocol and the one real clock.

State machines take `now_s` as a plain number; shells hold a `Clock`. Nothing else in the tree
calls `time.time()`.
"""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Two clocks: one for dates that others see, one for durations."""

    def wall_s(self) -> float:
        """Seconds since the Unix epoch; may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def wall_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()
