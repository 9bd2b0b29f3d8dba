"""What a stop throws away: for how long the task that runs has been computed.

Owns: that clockwork, for one card. Must not: stop anything. Of the tasks that an engine holds it
computes the oldest; those behind it have cost nothing yet. Time in which it is frozen, by a rule or
between the pulses of its duty, is no computing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from app.agent.duty import Freezable

__all__ = ["Counted", "Losses"]


class Losses:
    """Belongs to the loop's thread.

    Args:
        monotonic_s: a clock that never goes back.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._is_computing = False
        self._is_frozen = False
        self._since_s = 0.0
        self._spent_s = 0.0

    def begin(self) -> None:
        """The engine was given a task; where it has one already that one goes on."""
        if not self._is_computing:
            self._is_computing, self._spent_s = True, 0.0
            self._since_s = self._monotonic_s()

    def end(self, *, goes_on: bool) -> None:
        """The task that ran has its result. `goes_on`: another one is behind it."""
        self._is_computing, self._spent_s = goes_on, 0.0
        self._since_s = self._monotonic_s()

    def freeze(self) -> None:
        """From now on nothing is computed."""
        if not self._is_frozen:
            self._spent_s += self._elapsed_s()
            self._is_frozen = True

    def thaw(self) -> None:
        """It goes on."""
        if self._is_frozen:
            self._is_frozen = False
            self._since_s = self._monotonic_s()

    def stop(self) -> float:
        """The engine ends: the seconds that are lost; none where nothing ran."""
        lost_s = self._spent_s + self._elapsed_s() if self._is_computing else 0.0
        self._is_computing = self._is_frozen = False
        self._spent_s = 0.0
        return lost_s

    def _elapsed_s(self) -> float:
        if self._is_frozen or not self._is_computing:
            return 0.0
        return max(0.0, self._monotonic_s() - self._since_s)


class Counted:
    """An engine whose pauses are told to its losses."""

    def __init__(self, engine: Freezable, losses: Losses) -> None:
        self._engine = engine
        self._losses = losses

    def freeze(self) -> None:
        """Stops it in its place."""
        self._losses.freeze()
        self._engine.freeze()

    def thaw(self) -> None:
        """Lets it go on."""
        self._losses.thaw()
        self._engine.thaw()
