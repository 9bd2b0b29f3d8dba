"""Rounds that end without all their shards: when one ends, and what its step then reads.

Owns: the rule of the deadline, and the plan as far as the record of ended rounds decides it. Pure:
times are passed in, and nothing of a result follows from them but through the record.

A round's record says which of its shards were in time, as a mask with a character a shard: "1", or
"0" for those that come late. A late shard is taken into the next round's step, with less weight;
that round does not end without it. So every shard counts once, at most one round late, and the
record alone says where: whoever has it, and no clock, makes the same plan and the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import PlannedTask, PlanSummary

__all__ = ["WATCHED", "Decided", "deadline_s", "in_time", "is_over", "late"]

WATCHED: Final = 8
"""Rounds before this one whose arrivals count."""

DEVIATIONS: Final = 4 * 1.4826
"""Median deviations beyond the middle one: four standard deviations where arrivals are normal
(F. Hampel, *The influence curve and its role in robust estimation*, 1974)."""

LEAST_PART, LEAST_S = 0.25, 1.0
"""Nobody is late by less than a quarter of the usual time, or than a second."""


def deadline_s(arrivals: Sequence[float]) -> float:
    """Seconds from the beginning of a round after which it waits for its quorum only.

        median(a) + max(1 s, median(a) / 4, 4 * 1.4826 * median(|a - median(a)|))

    Args:
        arrivals: seconds from the beginning of its round to the verdict of each shard that has one,
            of this round and of those before it; not empty.
    """
    middle = median(arrivals)
    spread = median(abs(one - middle) for one in arrivals)
    return middle + max(LEAST_S, LEAST_PART * middle, DEVIATIONS * spread)


def is_over(
    here: str, quorum: int, waited_s: float, arrivals: Sequence[float], *, owes: bool, last: bool
) -> bool:
    """Whether a round may end with the shards that are verified by now.

    Args:
        here: a mask of them. waited_s: since the round began. arrivals: as in `deadline_s`.
        owes: whether a late shard of the round before is not verified yet. last: whether no round
            comes after it.
    """
    if owes:
        return False
    if "0" not in here:
        return True
    return not last and here.count("1") >= quorum and waited_s >= deadline_s(arrivals)


def in_time(mask: str) -> tuple[int, ...]:
    """The shards that a record says were in time."""
    return tuple(shard for shard, one in enumerate(mask) if one == "1")


def late(mask: str) -> tuple[int, ...]:
    """The shards that a record leaves to the next round; none where there is no record."""
    return tuple(shard for shard, one in enumerate(mask) if one == "0")


@dataclass(frozen=True, slots=True)
class Decided:
    """A plan whose rounds may end without all their shards, as far as it is decided.

    Args:
        plan: its `lateness` is set. masks: the records of ended rounds, by round; of each round
            from that of task `first - 1` on. first: the first task that is still to be made.
    """

    plan: RoundsPlan
    masks: Mapping[int, str]
    first: int

    @property
    def count(self) -> int:
        """Tasks that can be made by now: up to the step of the first round without a record."""
        turn = self.plan.turn_from(self.first)
        while turn in self.masks:
            turn += 1
        return self.plan.step_task(turn) if turn < self.plan.rounds else self.plan.count

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.plan.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self.plan.outputs

    def task(self, index: int) -> PlannedTask:
        """A task. Raises PlanError `plan_task_unknown`: it is not there, or not decided yet."""
        turn = self.plan.turn_from(index) if 0 <= index < self.plan.count else self.plan.rounds
        if turn >= self.plan.rounds or index != self.plan.step_task(turn):
            return self.plan.task(index)
        lateness = self.plan.lateness
        if lateness is None or turn not in self.masks:
            raise PlanError("plan_task_unknown", index=index, count=self.count)
        item = lateness.step(in_time(self.masks[turn]), late(self.masks.get(turn - 1, "")))
        return self.plan.step(turn, item)

    def consumers(self, index: int) -> tuple[int, ...]:
        """As those of the plan. A shard is read by one step, its own round's or the next one's:
        their number is right, and which one it is nobody asks before it is made."""
        return self.plan.consumers(index)

    def summary(self) -> PlanSummary:
        return self.plan.summary()
