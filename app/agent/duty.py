"""An engine's duty: how much of the time it may compute, by stopping and continuing its process.

Owns: the pulses. Must not: end an engine; know why it is slowed.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

__all__ = ["PERIOD_S", "Duty", "Freezable"]

PERIOD_S: Final = 0.5
"""One pulse: a task of many seconds is stretched evenly, and nobody feels a single stop."""


class Freezable(Protocol):
    """An engine that can be stopped in its place."""

    def freeze(self) -> None:
        """Stops it; memory is kept."""
        ...

    def thaw(self) -> None:
        """Lets it go on."""
        ...


class Duty:
    """The duty of one card's engine. Methods belong to the loop's thread."""

    def __init__(self) -> None:
        self._engine: Freezable | None = None
        self._percent = 100
        self._is_held = False
        self._timer: asyncio.TimerHandle | None = None

    def attach(self, engine: Freezable) -> None:
        """A new engine, which computes all of the time."""
        self.detach()
        self._engine = engine

    def detach(self) -> None:
        """The engine is gone or going."""
        self._cancel()
        self._engine, self._percent, self._is_held = None, 100, False

    def hold(self) -> None:
        """Stops the engine until `release`."""
        self._is_held = True
        self._cancel()
        if self._engine is not None:
            self._engine.freeze()

    def release(self) -> None:
        """Lets the engine go on, as its duty says."""
        self._is_held = False
        self._begin()

    def set(self, percent: int) -> None:
        """How much of the time it may compute, 5 to 100."""
        self._percent = min(100, max(5, percent))
        if not self._is_held:
            self._begin()

    def _begin(self) -> None:
        self._cancel()
        if self._engine is None:
            return
        self._engine.thaw()
        if self._percent < 100:
            on_s = PERIOD_S * self._percent / 100
            self._timer = asyncio.get_running_loop().call_later(on_s, self._rest)

    def _rest(self) -> None:
        if self._engine is None:
            return
        self._engine.freeze()
        off_s = PERIOD_S * (100 - self._percent) / 100
        self._timer = asyncio.get_running_loop().call_later(off_s, self._begin)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
