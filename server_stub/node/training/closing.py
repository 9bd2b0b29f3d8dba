"""Ending rounds of which a shard is late: by the clock once, by the record ever after.

Owns: what is read of a round to say whether it is over, and the transaction that writes its record.
From the record follows which shards the round's step reads, so a node that is killed and started
again makes the step that it would have made. Must not: hold the rule (`gpugoblin.plan.arrivals`).

A round that may not end without a shard (one that is late already, or any in the last round) has it
computed by somebody else once the deadline is over, so nobody's silence lasts longer than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from gpugoblin.plan import arrivals
from gpugoblin.plan.arrivals import Decided
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import Plan
from server_stub.node.state import leases
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Store, Tx
from server_stub.node.training import rows

__all__ = ["Host", "close", "decided"]

T = TypeVar("T")

VERIFIED = ("verified", "used")


class Host(Protocol):
    """What is asked of the node."""

    @property
    def store(self) -> Store: ...

    async def handle(self, handler: Callable[[Step], T]) -> T: ...


async def decided(host: Host, job: str, plan: Plan, cursor: int, now_s: float) -> Plan:
    """A plan as far as tasks can be made by now, from task `cursor` on.

    A round whose step is next, and that is over, is closed.
    """
    if not isinstance(plan, RoundsPlan) or plan.lateness is None:
        return plan
    turn = plan.turn_from(cursor)
    known = await host.store.read(lambda tx: rows.records(tx, job, turn - 1))
    found = Decided(plan, known, cursor)
    if turn == plan.rounds or found.count > cursor:
        return found
    if await host.store.read(lambda tx: _look(tx, job, plan, turn, now_s).changes(plan)):
        await host.handle(lambda step: close(step, job, plan, turn))
        known = await host.store.read(lambda tx: rows.records(tx, job, turn - 1))
    return Decided(plan, known, cursor)


def close(step: Step, job: str, plan: RoundsPlan, turn: int) -> bool:
    """Writes the record of a round if it is over; else, after its deadline, has the shards that it
    cannot end without computed by others. False: it goes on."""
    if plan.lateness is None or turn in rows.records(step.tx, job, turn, 1):
        return True
    found = _look(step.tx, job, plan, turn, step.now_s)
    mask = found.mask(plan)
    if mask:
        rows.note_record(step, job, turn, mask)
        return True
    for task in found.awaited(plan):
        leases.hurry(step, task, step.now_s - found.deadline_s)
    return False


@dataclass(frozen=True, slots=True)
class _Round:
    """A round that has not ended.

    Args:
        here: a mask of its verified shards. tasks: of all its shards. owed: of late shards of the
            round before that are not verified.
        waited_s: since somebody took its first shard. arrivals: as `arrivals.deadline_s` wants
            them; empty: none has come.
    """

    turn: int
    here: str
    tasks: tuple[int, ...]
    owed: tuple[int, ...]
    waited_s: float
    arrivals: tuple[float, ...]

    @property
    def deadline_s(self) -> float:
        return arrivals.deadline_s(self.arrivals) if self.arrivals else float("inf")

    def mask(self, plan: RoundsPlan) -> str:
        """The record with which it ends now; empty: it does not."""
        lateness = plan.lateness
        if lateness is None:
            return ""
        if lateness.record:
            # Repeating another run: nothing hangs on the clock.
            wanted = lateness.record[self.turn]
            there = all(self.here[shard] == "1" for shard in arrivals.in_time(wanted))
            return wanted if there and not self.owed else ""
        over = arrivals.is_over(
            self.here, lateness.quorum, self.waited_s, self.arrivals,
            owes=bool(self.owed), last=self.turn == plan.rounds - 1,
        )  # fmt: skip
        return self.here if over else ""

    def awaited(self, plan: RoundsPlan) -> tuple[int, ...]:
        """Tasks that it cannot end without, once the deadline is over."""
        if self.waited_s < self.deadline_s:
            return ()
        needed = tuple(range(len(self.tasks) if self.turn == plan.rounds - 1 else 0))
        if plan.lateness is not None and plan.lateness.record:
            needed = arrivals.in_time(plan.lateness.record[self.turn])
        missing = (self.tasks[shard] for shard in needed if self.here[shard] == "0")
        return (*self.owed, *missing)

    def changes(self, plan: RoundsPlan) -> bool:
        """Whether there is anything to write."""
        return bool(self.mask(plan) or self.awaited(plan))


_Shard = tuple[int, str, float, float | None]
"""Its task, its state, since when, and when it was first taken."""


def _look(tx: Tx, job: str, plan: RoundsPlan, turn: int, now_s: float) -> _Round:
    first = max(0, turn - arrivals.WATCHED)
    came: list[float] = []
    known: list[_Shard] = []
    before = rows.records(tx, job, turn - 1, 1).get(turn - 1, "")
    owed: list[_Shard] = []
    begun_s = now_s
    for one in range(first, turn + 1):
        known = _shards(tx, job, plan, one)
        taken = [issued_s for _, _, _, issued_s in known if issued_s is not None]
        begun_s = min(taken, default=now_s)
        came += [max(0.0, since_s - begun_s) for _, state, since_s, _ in known if state in VERIFIED]
        if one == turn - 1:
            owed = [known[shard] for shard in arrivals.late(before)]
    return _Round(
        turn,
        "".join("1" if state in VERIFIED else "0" for _, state, _, _ in known),
        tuple(task for task, _, _, _ in known),
        tuple(task for task, state, _, _ in owed if state not in VERIFIED),
        now_s - begun_s,
        tuple(came),
    )


def _shards(tx: Tx, job: str, plan: RoundsPlan, turn: int) -> list[_Shard]:
    """The shards of a round, in order."""
    found = tx.rows(
        "select t.id, t.state, t.since_s, (select min(l.issued_s) from lease l where l.task = t.id)"
        " from task t where t.job = ? and t.number between ? and ? order by t.number",
        (job, plan.first_task(turn), plan.step_task(turn) - 1),
    )
    return [(task, state, since_s, issued_s) for task, state, since_s, issued_s in found]
