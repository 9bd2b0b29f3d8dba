"""The users' lanes in the database, and where a task stands in its user's own order.

Owns: tables `lane` and `fair`. A user has a lane from the first job on. `fair` keeps the tags of
each executor, and under lane `_VIRTUAL` its virtual time; they are written in the transaction that
gives the turns out. Must not: hold the arithmetic (`fairness`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from gpugoblin.errors import NodeError
from server_stub.node.state.fairness import MAX_WEIGHT, REBASE, Lane, Turns, after
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = [
    "charge", "close", "in_turn", "next_sequence", "of_owner", "set_weight", "turn_of", "turns",
]  # fmt: skip

T = TypeVar("T")

_VIRTUAL: Final = -1
_PRIORITY_STEP: Final = 1 << 40

_ENDS: Final = (
    "select (select min(lane) from task where state = 'ready' and executor = ?),"
    " (select max(lane) from task where state = 'ready' and executor = ?)"
)
"""The first and the last lane with work; the same one where a user is alone."""

_ALL: Final = (
    "with recursive found(lane) as ("
    "select min(lane) from task where state = 'ready' and executor = ?"
    " union all"
    " select (select min(lane) from task where state = 'ready' and executor = ?"
    " and lane > found.lane) from found where found.lane is not null)"
    " select found.lane, coalesce(l.weight, 1), coalesce(f.tag, 0), coalesce(f.stamp, 0) from found"
    " left join lane l on l.number = found.lane"
    " left join fair f on f.executor = ? and f.lane = found.lane where found.lane is not null"
)
"""Every lane with work, one look into the index for each."""


def of_owner(step: Step, owner: str) -> int:
    """The lane of a user, made when it is the first time."""
    step.tx.change("insert into lane(owner) values(?) on conflict(owner) do nothing", (owner,))
    row = step.tx.one("select number from lane where owner = ?", (owner,))
    assert row is not None  # noqa: S101 - it was made above
    return int(row[0])


def next_sequence(tx: Tx) -> int:
    """The place of a new job after all others."""
    row = tx.one("select coalesce(max(sequence), 0) + 1 from job")
    return int(row[0]) if row is not None else 1


def turn_of(priority: int, sequence: int) -> int:
    """Where a job's tasks stand among those of one user: by priority, then the older job first."""
    return -priority * _PRIORITY_STEP + sequence


def set_weight(tx: Tx, owner: str, weight: int) -> None:
    """How many turns a user gets for each turn of a user with weight 1.

    Raises:
        NodeError: `parameter_invalid`.
    """
    if not 1 <= weight <= MAX_WEIGHT:
        raise NodeError(
            "parameter_invalid", name="weight", value=weight, reason=f"not from 1 to {MAX_WEIGHT}"
        )
    tx.change(
        "insert into lane(owner, weight) values(?, ?)"
        " on conflict(owner) do update set weight = excluded.weight",
        (owner, weight),
    )


def _ends(step: Step, executors: Sequence[str]) -> tuple[int, int] | None:
    """The first and the last lane with work for any of these executors."""
    rows = [row for each in executors for row in step.tx.rows(_ENDS, (each, each))
            if row[0] is not None]  # fmt: skip
    return (min(row[0] for row in rows), max(row[1] for row in rows)) if rows else None


def turns(step: Step, executor: str, also: Sequence[str] = ()) -> Turns:
    """The users who have ready tasks for an executor. Say `close` when the turns are given.

    Args:
        also: other executors, whose tasks it computes as well; the tags are its own for all.
    """
    executors = (executor, *also)
    ends = _ends(step, executors)
    if ends is None:
        return Turns((), 0, 0)
    if ends[0] == ends[1]:
        return Turns((Lane(ends[0]),), 0, 0)
    found = [step.tx.rows(_ALL, (each, each, executor)) for each in executors]
    lanes = {row[0]: Lane(*row) for rows in found for row in rows}
    row = step.tx.one(
        "select tag, stamp from fair where executor = ? and lane = ?", (executor, _VIRTUAL)
    )
    return Turns(lanes.values(), *(row or (0, 0)))


def charge(step: Step, executor: str, task: int, cost: int) -> None:
    """A task's user had something out of turn, which is paid with the turns to come. Nobody is
    charged while nobody else waits."""
    ends = _ends(step, (executor,))
    if ends is None:
        return
    row = step.tx.one(
        "select l.number, l.weight, coalesce(f.tag, 0), coalesce(f.stamp, 0), coalesce(v.tag, 0)"
        " from task t join lane l on l.number = t.lane"
        " left join fair f on f.executor = ? and f.lane = l.number"
        " left join fair v on v.executor = ? and v.lane = ? where t.id = ?",
        (executor, executor, _VIRTUAL, task),
    )
    if row is not None and ends != (row[0], row[0]):
        _keep(step, executor, after(Lane(*row[:4]), row[4], cost))


def in_turn(given: Turns, take: Callable[[int], T | None], cost: Callable[[T], int]) -> T | None:
    """The next task by turns: `take` is asked lane by lane until one has something."""
    for lane in given.order():
        found = take(lane)
        if found is not None:
            given.charge(lane, cost(found))
            return found
        given.leave(lane)
    return None


def close(step: Step, executor: str, given: Turns) -> None:
    """Keeps what the turns have changed."""
    changed = given.changed()
    if not changed:
        return
    if given.virtual > REBASE:  # all begin again: it costs nobody more than one task
        step.tx.change("delete from fair where executor = ?", (executor,))
        return
    for lane in (*changed, Lane(_VIRTUAL, tag=given.virtual, stamp=given.stamp)):
        _keep(step, executor, lane)


def _keep(step: Step, executor: str, lane: Lane) -> None:
    step.tx.change(
        "insert into fair(executor, lane, tag, stamp) values(?, ?, ?, ?)"
        " on conflict(executor, lane) do update set tag = excluded.tag, stamp = excluded.stamp",
        (executor, lane.number, lane.tag, lane.stamp),
    )
