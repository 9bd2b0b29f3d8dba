"""What a user may take of the lab node: disk for arrays, and tasks that are not done yet.

Owns: table `quota`, and the judgement. Promises count: the results of a job from the moment at
which it is taken, an upload with all of its bytes. A row with an empty name is for all who have
none of their own; a limit that is not set there either does not exist. Must not: write anything
else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpugoblin.errors import NodeError
from gpugoblin.units import format_bytes
from server_stub.node.state import arrays
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = [
    "EVERYBODY",
    "Limits",
    "Use",
    "limits_of",
    "listed",
    "own_limits",
    "require",
    "require_room",
    "set_limits",
    "used_by",
]

EVERYBODY: Final = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """None: there is no limit."""

    disk_bytes: int | None = None
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What a user has of each now, promises included."""

    disk_bytes: int
    tasks: int


def limits_of(tx: Tx, owner: str) -> Limits:
    """A user's own limits, and everybody's where the user has none."""
    rows = {
        name: (disk, tasks)
        for name, disk, tasks in tx.rows(
            "select owner, disk_bytes, tasks from quota where owner in (?, ?)", (owner, EVERYBODY)
        )
    }
    own, all_others = rows.get(owner, (None, None)), rows.get(EVERYBODY, (None, None))
    found = [a if a is not None else b for a, b in zip(own, all_others, strict=True)]
    return Limits(*found)


def own_limits(tx: Tx, owner: str) -> Limits:
    """What was set for this name alone."""
    row = tx.one("select disk_bytes, tasks from quota where owner = ?", (owner,))
    return Limits() if row is None else Limits(*row)


def used_by(tx: Tx, owner: str) -> Use:
    """What a user has."""
    row = tx.one(
        "select coalesce(sum(tasks - used), 0) from job where owner = ? and state = 'running'",
        (owner,),
    )
    return Use(arrays.kept_bytes(tx, owner), 0 if row is None else int(row[0]))


def require(step: Step, owner: str) -> None:
    """After something was taken in the same transaction: is the user within the limits?

    Raises:
        NodeError: `quota_disk`, `quota_tasks`.
    """
    _judge(step.tx, owner, Use(0, 0))


def require_room(tx: Tx, owner: str, more: Use, instead_of: str | None) -> None:
    """Before something is taken, and before anything makes way for it: would the user be within
    the limits with it? What `require` says afterwards decides.

    Args:
        instead_of: the name of an ended job that would give up what it keeps.

    Raises:
        NodeError: as `require`.
    """
    row = None if instead_of is None else tx.one(
        "select id from job where owner = ? and name = ? and state in ('failed', 'cancelled')",
        (owner, instead_of),
    )  # fmt: skip
    less = 0 if row is None else arrays.unfinished_bytes(tx, row[0])
    _judge(tx, owner, Use(more.disk_bytes - less, more.tasks))


def _judge(tx: Tx, owner: str, more: Use) -> None:
    limits = limits_of(tx, owner)
    if limits == Limits():
        return
    now = used_by(tx, owner)
    use = Use(now.disk_bytes + more.disk_bytes, now.tasks + more.tasks)
    if limits.disk_bytes is not None and use.disk_bytes > limits.disk_bytes:
        raise NodeError(
            "quota_disk", owner=owner, needed=format_bytes(use.disk_bytes),
            limit=format_bytes(limits.disk_bytes),
        )  # fmt: skip
    if limits.tasks is not None and use.tasks > limits.tasks:
        raise NodeError("quota_tasks", owner=owner, needed=use.tasks, limit=limits.tasks)


def set_limits(tx: Tx, owner: str, limits: Limits) -> None:
    """Sets both limits of a user, or of `EVERYBODY`; what runs goes on.

    Raises:
        NodeError: `parameter_invalid`.
    """
    for name, value in (("disk", limits.disk_bytes), ("tasks", limits.tasks)):
        if value is not None and not 0 <= value < 1 << 62:
            raise NodeError("parameter_invalid", name=name, value=value, reason="no possible limit")
    tx.change(
        "insert into quota(owner, disk_bytes, tasks) values(?, ?, ?) on conflict(owner)"
        " do update set disk_bytes = excluded.disk_bytes, tasks = excluded.tasks",
        (owner, limits.disk_bytes, limits.tasks),
    )


def listed(tx: Tx) -> list[tuple[str, Limits, Use]]:
    """Everybody who has a limit, a job or an array, by name."""
    names = {name for (name,) in tx.rows(
        "select owner from quota union select owner from job union select owner from array"
    )}  # fmt: skip
    return [(name, limits_of(tx, name), used_by(tx, name)) for name in sorted(names)]
