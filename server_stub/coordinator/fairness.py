"""Which lab gets the next card: weighted fair shares without starvation.

Owns: the choice, a pure function. Each lab has a virtual time that grows by `grant_s / weight` with
every grant it gets; the lab that is furthest behind is next. The level of the whole, which never
goes back, is where the furthest behind was at the last choice: a lab that comes (back) starts
there, so it neither claims all cards for the time it was away nor pays for the time it was alone
(start-time fair queuing: Goyal, Vin, Cheng, SIGCOMM 1996). While labs have demand, what they got
per weight differs by at most one grant of each, and one more for the card that stays where its
blobs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Choice", "LabShare", "choose", "step"]


@dataclass(frozen=True, slots=True)
class LabShare:
    """A lab as the choice sees it. `served` is its virtual time, in milliseconds over weight."""

    lab: str
    weight: float
    served: int
    cards_wanted: int
    cards_held: int
    min_memory_bytes: int
    max_cards: int

    def can_take(self, memory_bytes: int) -> bool:
        """Whether one more card with this memory is of use to the lab and within its limit."""
        return (
            self.cards_held < min(self.cards_wanted, self.max_cards)
            and memory_bytes >= self.min_memory_bytes
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """The lab that was chosen, its virtual time after this grant, and the level of the whole."""

    lab: LabShare
    served: int
    level: int


def step(lab: LabShare, grant_s: float) -> int:
    """How far one grant moves a lab."""
    return max(1, round(1000 * grant_s / lab.weight))


def choose(
    labs: Sequence[LabShare],
    level: int,
    memory_bytes: int,
    grant_s: float,
    last_lab: str | None = None,
) -> Choice | None:
    """The lab that gets a card with `memory_bytes`, or None when no lab can use it.

    A card stays with `last_lab`, whose blobs it may still hold, while that lab is at most one of
    its own grants ahead of the one that is furthest behind.
    """
    starts = {lab.lab: max(lab.served, level) for lab in labs if lab.can_take(memory_bytes)}
    fitting = [lab for lab in labs if lab.lab in starts]
    if not fitting:
        return None
    chosen = min(fitting, key=lambda lab: (starts[lab.lab], lab.lab))
    behind = starts[chosen.lab]
    for lab in fitting:
        if lab.lab == last_lab and starts[lab.lab] <= behind + step(lab, grant_s):
            chosen = lab
    return Choice(chosen, starts[chosen.lab] + step(chosen, grant_s), behind)
