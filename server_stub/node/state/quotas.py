"""What a user may take of the lab node: disk for arrays, tasks that are not done yet, and hours of
volunteers in a month.

Owns: table `quota`, and the judgement. Promises count: the results of a job from the moment at
which it is taken, an upload with all of its bytes. Hours are used up while jobs run: a user without
any left begins nothing for volunteers, and what runs there gets no further tasks until there are
again. A row with an empty name is for all who have none of their own; a limit that is not set there
either does not exist. Must not: change a job but for what it says that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Final

from gpugoblin.errors import NodeError
from gpugoblin.units import format_bytes
from server_stub.node.state import arrays, grid_hours
from server_stub.node.state.words import JobChanged, Step
from server_stub.node.store.protocol import Tx

__all__ = [
    "EVERYBODY",
    "HELD",
    "Limits",
    "Use",
    "held",
    "limits_of",
    "listed",
    "note_held",
    "own_limits",
    "require",
    "require_grid",
    "require_room",
    "set_limits",
    "used_by",
    "without_hours",
]

EVERYBODY: Final = ""
HELD: Final = "quota_grid_hours"
"""What a running job waits for whose owner has no hours left."""


@dataclass(frozen=True, slots=True)
class Limits:
    """None: there is no limit."""

    disk_bytes: int | None = None
    tasks: int | None = None
    grid_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What a user has of each now, promises included; hours are those of this month."""

    disk_bytes: int
    tasks: int
    grid_hours: float = 0.0


def limits_of(tx: Tx, owner: str) -> Limits:
    """A user's own limits, and everybody's where the user has none."""
    rows = {
        name: limits
        for name, *limits in tx.rows(
            "select owner, disk_bytes, tasks, grid_hours from quota where owner in (?, ?)",
            (owner, EVERYBODY),
        )
    }
    none = [None] * len(fields(Limits))
    own, all_others = rows.get(owner, none), rows.get(EVERYBODY, none)
    found = [a if a is not None else b for a, b in zip(own, all_others, strict=True)]
    return Limits(*found)


def own_limits(tx: Tx, owner: str) -> Limits:
    """What was set for this name alone."""
    row = tx.one("select disk_bytes, tasks, grid_hours from quota where owner = ?", (owner,))
    return Limits() if row is None else Limits(*row)


def used_by(tx: Tx, owner: str) -> Use:
    """What a user has of the disk and of tasks."""
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


def require_grid(tx: Tx, owner: str, now_s: float) -> None:
    """Whether a user may begin something for volunteers. Raises NodeError `quota_grid_hours`."""
    limit = limits_of(tx, owner).grid_hours
    if limit is not None:
        used = grid_hours.used(tx, owner, now_s)
        if used >= limit:
            raise NodeError("quota_grid_hours", owner=owner, used=f"{used:.2f}", limit=f"{limit:g}")


def without_hours(tx: Tx, now_s: float) -> dict[str, str]:
    """Owners of running jobs for volunteers who have no hours left, each with what is said."""
    found = {}
    for (owner,) in tx.rows(
        "select distinct owner from job where state = 'running' and executor = 'grid'"
    ):
        try:
            require_grid(tx, owner, now_s)
        except NodeError as error:
            found[owner] = str(error)
    return found


def held(tx: Tx, owners: Iterable[str]) -> tuple[frozenset[str], bool]:
    """The running jobs for volunteers of these owners, and whether `note_held` has news."""
    named = frozenset(owners)
    jobs, news = set(), False
    for job, owner, code in tx.rows(
        "select id, owner, error_code from job where state = 'running' and executor = 'grid'"
    ):
        if owner in named:
            jobs.add(job)
            news = news or code == ""
        else:
            news = news or code == HELD
    return frozenset(jobs), news


def note_held(step: Step, owners: dict[str, str]) -> None:
    """Those jobs say why nothing new begins; the others, that it does again."""
    for job, owner, code in step.tx.rows(
        "select id, owner, error_code from job where state = 'running' and executor = 'grid'"
        " and error_code in ('', ?)",
        (HELD,),
    ):
        if (owner in owners) != (code == HELD):
            words = owners.get(owner, "")
            step.tx.change(
                "update job set error_code = ?, error_text = ? where id = ?",
                (HELD if words else "", words, job),
            )
            step.emit(JobChanged(job))


def set_limits(tx: Tx, owner: str, limits: Limits) -> None:
    """Sets all limits of a user, or of `EVERYBODY`; what runs goes on.

    Raises:
        NodeError: `parameter_invalid`.
    """
    for name in ("disk_bytes", "tasks", "grid_hours"):
        value = getattr(limits, name)
        if value is not None and not 0 <= value < 1 << 62:
            raise NodeError("parameter_invalid", name=name, value=value, reason="no possible limit")
    tx.change(
        "insert into quota(owner, disk_bytes, tasks, grid_hours) values(?, ?, ?, ?)"
        " on conflict(owner) do update set disk_bytes = excluded.disk_bytes,"
        " tasks = excluded.tasks, grid_hours = excluded.grid_hours",
        (owner, limits.disk_bytes, limits.tasks, limits.grid_hours),
    )


def listed(tx: Tx, now_s: float) -> list[tuple[str, Limits, Use]]:
    """Everybody who has a limit, a job or an array, by name."""

    def use(owner: str) -> Use:
        return replace(used_by(tx, owner), grid_hours=grid_hours.used(tx, owner, now_s))

    names = {name for (name,) in tx.rows(
        "select owner from quota union select owner from job union select owner from array"
    )}  # fmt: skip
    return [(name, limits_of(tx, name), use(name)) for name in sorted(names)]
