"""Probes that look: one thread looks at each when its time has come, and no look holds another up.

Owns: the thread, the periods and the deadline. Must not: know what is looked at. A look that hangs
is reported as unknown, and a new thread looks at the rest; when it comes back it takes part again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

__all__ = ["DEADLINE_S", "Pace", "Polled", "Polls"]

Pace: TypeAlias = Literal["off", "waiting", "lending"]
"""`off`: nothing could be lent anyway; `waiting`: it is watched for the moment to lend."""

DEADLINE_S: Final = 3.0


class Polled(Protocol):
    """Something to look at.

    Attributes:
        name: for reports.
        periods_s: between two looks, by pace.
    """

    name: str
    periods_s: dict[Pace, float]

    def look(self) -> object:
        """What it sees. Blocks shortly; may raise anything, which counts as unknown."""
        ...


@dataclass(slots=True)
class _Round:
    """One thread's work. `at`: the probe that it looks at now, since `since_s`."""

    probes: list[Polled]
    at: Polled | None = None
    since_s: float = 0.0
    is_left: bool = False
    due_s: dict[str, float] = field(default_factory=dict)


class Polls:
    """Looks at all probes until `close`.

    Args:
        tell: takes a probe, what it saw, or why it is unknown; called in the looking thread.
    """

    def __init__(self, probes: Sequence[Polled], tell: Callable[[Polled, Any, str], None]) -> None:
        self._probes = list(probes)
        self._tell = tell
        self._pace: Pace = "lending"
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._is_closed = False
        self._round = _Round(self._probes)
        self._hung: set[str] = set()
        self._told: dict[str, tuple[object, str]] = {}

    def start(self) -> None:
        """Begins to look, at everything at once."""
        self._spawn(self._round)

    def close(self) -> None:
        """Ends; a look that hangs is left to itself."""
        with self._lock:
            self._is_closed = True
            self._wake.notify_all()

    def set_pace(self, pace: Pace) -> None:
        """Another pace; a quicker one begins with a look at everything."""
        with self._lock:
            if pace == self._pace:
                return
            is_quicker = pace == "lending" or self._pace == "off"
            self._pace = pace
            if is_quicker:
                self._round.due_s.clear()
            self._wake.notify_all()

    def look_again(self) -> None:
        """Looks at everything now: something has happened."""
        with self._lock:
            self._round.due_s.clear()
            self._wake.notify_all()

    def check(self) -> None:
        """Called every few seconds by the loop: a look that hangs loses its thread."""
        with self._lock:
            hung = self._round.at
            if hung is None or time.monotonic() - self._round.since_s < DEADLINE_S:
                return
            self._round.is_left = True
            self._hung.add(hung.name)
            rest = [probe for probe in self._probes if probe.name not in self._hung]
            self._round = _Round(rest, due_s=dict(self._round.due_s))
            if rest:
                self._spawn(self._round)
        self._told.pop(hung.name, None)
        self._tell(hung, None, f"it has not answered within {DEADLINE_S:g} s")

    def _spawn(self, work: _Round) -> None:
        threading.Thread(target=self._run, args=(work,), name="probes", daemon=True).start()

    def _run(self, work: _Round) -> None:
        while True:
            with self._lock:
                if self._is_closed or work.is_left:
                    return
                probe, wait_s = self._next(work)
                if probe is None:
                    self._wake.wait(wait_s)
                    continue
                work.at, work.since_s = probe, time.monotonic()
            told = _look(probe)
            if self._looked(work, probe) and self._told.get(probe.name) != told:
                self._told[probe.name] = told  # nobody wakes for what is as it was
                self._tell(probe, *told)

    def _looked(self, work: _Round, probe: Polled) -> bool:
        """After a look; False when nobody wants to hear of it any more."""
        with self._lock:
            work.at = None
            if work.is_left:
                self._rejoin(probe)
            return not self._is_closed

    def _rejoin(self, probe: Polled) -> None:
        self._hung.discard(probe.name)
        self._round.probes = [*self._round.probes, probe]
        if len(self._round.probes) == 1:  # every other thread has ended
            self._round = _Round([probe])
            self._spawn(self._round)
        self._wake.notify_all()

    def _next(self, work: _Round) -> tuple[Polled | None, float]:
        """A probe whose time has come, or how long none has to be looked at."""
        now_s = time.monotonic()
        wait_s = 3600.0
        for probe in work.probes:
            left_s = work.due_s.get(probe.name, 0.0) - now_s
            if left_s <= 0:
                # On a common grid, so that several look in one waking.
                period_s = probe.periods_s[self._pace]
                work.due_s[probe.name] = (now_s // period_s + 1) * period_s
                return probe, 0.0
            wait_s = min(wait_s, left_s)
        return None, wait_s


def _look(probe: Polled) -> tuple[object, str]:
    try:
        return probe.look(), ""
    except Exception as error:  # whatever a driver or a file says must not end the probes
        return None, f"{type(error).__name__}: {error}"[:300]
