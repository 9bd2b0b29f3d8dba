"""Whose turn it is among users with work, by start-time fair queueing (stride scheduling that keeps
no credit of idle times).

Owns: the arithmetic. Each user has a lane with a weight and a tag: the virtual time at which the
user's last turn ends (and a stamp, by which of equal tags the older one is first). Virtual time is
the start of the last turn. A turn starts at the tag, or now
if the tag is in the past, and lasts cost / weight; the earliest start is next. So a user who comes
back gets no arrears, and nobody with work waits longer than the own fair share of what is given out
and one task beside. Whole numbers only: the same rows give the same turns everywhere. Must not:
know a database, a clock or a task.

Source: Goyal, Vin, Cheng, "Start-time Fair Queuing", SIGCOMM 1996, theorem 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["MAX_WEIGHT", "REBASE", "SCALE", "Lane", "Turns", "after", "cost_of"]

SCALE: Final = 1000
"""Virtual time that a cost of 1 takes at weight 1."""

MAX_WEIGHT: Final = 1000
REBASE: Final = 1 << 60
"""Virtual times beyond this begin at 0 again, long before a database's integers end."""

_FLOPS: Final = 10**6
_BYTES: Final = 10**4


class Lane(NamedTuple):
    """One user in one executor. Weight 2 gets twice the turns of weight 1."""

    number: int
    weight: int = 1
    tag: int = 0
    stamp: int = 0


def cost_of(flops: int, bytes_moved: int) -> int:
    """What a task costs its user: millionths of a unit of credit, at least 1."""
    return max(1, flops // _FLOPS, bytes_moved // _BYTES)


def after(lane: Lane, virtual: int, cost: int) -> Lane:
    """A lane when something that costs so much is added to what it had, at this virtual time."""
    return lane._replace(tag=max(lane.tag, virtual) + max(1, cost * SCALE // lane.weight))


class Turns:
    """The lanes that have work in one executor, while turns are given out.

    Args:
        virtual: where virtual time stands.
        stamp: of the last turn.
    """

    def __init__(self, lanes: Iterable[Lane], virtual: int, stamp: int) -> None:
        self._lanes = {lane.number: lane for lane in lanes}
        self._waiting = set(self._lanes)
        self._charged: set[int] = set()
        # One user alone pays nothing: all that others could hold against it is one task.
        self._is_contested = len(self._lanes) > 1
        self.virtual = virtual
        self.stamp = stamp

    def order(self) -> list[int]:
        """Lanes with work, the one whose turn it is first."""
        lanes = self._lanes
        # Among those whose tags are past, all of whom would start now, the oldest tag is first.
        return sorted(self._waiting, key=lambda number: (*lanes[number][2:], number))

    def alone(self) -> int | None:
        """The lane of a user who is alone: nobody keeps account of turns."""
        return None if self._is_contested else next(iter(self._lanes), None)

    def again(self) -> None:
        """Somebody else asks: lanes that had nothing for the last one may have something."""
        self._waiting = set(self._lanes)

    def charge(self, number: int, cost: int) -> None:
        """A lane had a turn that costs so much (`cost_of`)."""
        if not self._is_contested:
            return
        lane = self._lanes[number]
        self.stamp += 1
        self._lanes[number] = after(lane, self.virtual, cost)._replace(stamp=self.stamp)
        self.virtual = max(lane.tag, self.virtual)
        self._charged.add(number)

    def leave(self, number: int) -> None:
        """A lane has nothing more for whoever asks."""
        self._waiting.discard(number)

    def changed(self) -> list[Lane]:
        """Lanes whose tags are to be kept."""
        return [self._lanes[number] for number in sorted(self._charged)]
