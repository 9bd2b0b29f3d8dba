"""Who may see a job beside its owner, and who may end it.

Owns: table `share` and the column `shared` of `job`. A job is its owner's alone until the owner
shares it, for reading, with users by name or with everybody in the lab. Administrators see all jobs
and may cancel and delete them. What somebody may not see is answered as what is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.errors import NodeError
from gpugoblin.ids import JobId
from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.sharing import MAX_SHARED, JobSharing
from server_stub.node.state import arrays, jobs
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx, Value
from server_stub.node.users import User

__all__ = ["array_of", "changeable", "readable", "share", "shared", "visible"]

_SEEN: Final = (
    "(owner = ? or ? or shared = 'lab'"
    " or exists (select 1 from share s where s.job = job.id and s.name = ?))"
)


def _seen(user: User) -> tuple[Value, ...]:
    return user.name, int(user.is_administrator), user.name


def readable(tx: Tx, user: User, job: str) -> str:
    """The id of a job that a user may see: the own ones by id or name, others by id or as
    `owner/name`.

    Raises:
        NodeError: `unknown_job`.
    """
    try:
        return jobs.find(tx, user.name, job)
    except NodeError:
        owner, _, name = job.partition("/")
        row = tx.one(
            f"select id from job where (id = ? or (owner = ? and name = ?)) and {_SEEN}"  # noqa: S608
            " order by id = ? desc limit 1",
            (job, owner, name, *_seen(user), job),
        )
        if row is None:
            raise
    return str(row[0])


def changeable(tx: Tx, user: User, job: str) -> str:
    """The id of a job that a user may cancel, delete and share.

    Raises:
        NodeError: `unknown_job`; `not_the_owner` where the user may see it only.
    """
    found = readable(tx, user, job)
    row = tx.one("select owner from job where id = ?", (found,))
    if row is not None and row[0] != user.name and not user.is_administrator:
        raise NodeError("not_the_owner", job=job, owner=row[0])
    return found


def array_of(tx: Tx, user: User, array: str) -> arrays.ArrayRow:
    """An array that a user may read: an own one, or a result of a job that the user may see.

    Raises:
        NodeError: `unknown_array`.
    """
    row = arrays.load(tx, array)
    if row is not None and row.owner == user.name:
        return row
    if row is not None and row.job is not None:
        seen = tx.one(
            f"select 1 from job where id = ? and {_SEEN}",  # noqa: S608 - constant
            (row.job, *_seen(user)),
        )
        if seen is not None:
            return row
    raise NodeError("unknown_array", array=array)


def visible(tx: Tx, user: User, most: int = jobs.MAX_SHOWN) -> tuple[JobInfo, ...]:
    """Every job that a user may see, the newest first; of very many, so many."""
    found = tx.rows(
        f"select id from job where {_SEEN} order by created_s desc, id limit ?",  # noqa: S608
        (*_seen(user), most),
    )
    return tuple(jobs.info(tx, job) for (job,) in found)


def share(step: Step, job: str, names: Sequence[str], *, lab: bool) -> None:
    """Sets who may see a job beside its owner; nobody is told.

    Raises:
        NodeError: `share_too_wide`.
    """
    if len(set(names)) > MAX_SHARED:
        raise NodeError("share_too_wide", count=len(set(names)), limit=MAX_SHARED)
    step.tx.change("update job set shared = ? where id = ?", ("lab" if lab else "", job))
    step.tx.change("delete from share where job = ?", (job,))
    for name in sorted(set(names)):
        step.tx.change("insert into share values(?, ?)", (job, name))


def shared(tx: Tx, job: str) -> JobSharing:
    """Who may see a job. Raises NodeError `unknown_job`."""
    row = tx.one("select owner, shared from job where id = ?", (job,))
    if row is None:
        raise NodeError("unknown_job", job=job)
    names = tx.rows("select name from share where job = ? order by name", (job,))
    return JobSharing(JobId(job), row[0], tuple(name for (name,) in names), row[1] == "lab")
