"""What a job that failed or was cancelled leaves behind, and how it goes on from there.

Owns: which ended jobs keep their verified results, taking such a job up again, and giving its
results up. A task that was not verified starts anew; one that was is never computed again. A
result that is given up loses the final path of its row, in the transaction that lets go of its
intermediates, so that nobody takes it up while its files are being deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gpugoblin.wire.messages.task import Constraints
from server_stub.node.state import arrays, blobs, events, lanes, leases, quotas, tasks
from server_stub.node.state.words import (
    SANDBOX_RANK,
    DiscardResults,
    FinishJob,
    RunWork,
    Step,
    StopLease,
)
from server_stub.node.store.protocol import Tx

__all__ = [
    "SPOILT",
    "Kept",
    "end_tasks",
    "give_up",
    "given_up",
    "is_kept",
    "kept",
    "kept_jobs",
    "let_go",
    "outdated",
    "resume",
]

SPOILT: Final = frozenset({"input_changed", "array_bytes_changed"})
"""Causes of a failure after which what was verified is about other numbers."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An ended job that may be taken up again.

    Args:
        count: tasks of its plan.
        unused: ids of those that were begun and not used: a worker may still be busy with them.
    """

    job: str
    executor: str
    limits: str
    block_axis: int | None
    graph: bytes
    count: int
    unused: tuple[int, ...]
    outputs: tuple[arrays.ArrayRow, ...]


_KEEPS: Final = (
    "j.state in ('failed', 'cancelled') and exists (select 1 from array a where a.job = j.id)"
    " and not exists (select 1 from array a where a.job = j.id and a.complete = 0"
    " and (a.path = '' or a.final_path = ''))"
)
_LACKS: Final = (
    "exists (select 1 from task_input i join task t on t.id = i.task join task p on"
    " p.id = i.producer join task_output o on o.task = p.id and o.slot = i.producer_slot"
    " where t.job = j.id and t.state in ('failed', 'cancelled') and p.state in ('verified', 'used')"
    " and o.blob is null)"
)
"""A result of an earlier task that is needed again is gone (jobs of earlier versions)."""


def kept(tx: Tx, owner: str, name: str | None, content: str) -> Kept | None:
    """The ended job of this name and content whose verified results are still there."""
    row = tx.one(
        "select j.id, j.executor, j.limits, j.block_axis, g.data, j.tasks"  # noqa: S608 - constants
        " from job j join graph g on g.hash = j.graph"
        f" where j.owner = ? and j.name = ? and j.content = ? and {_KEEPS} and not {_LACKS}",
        (owner, name, content),
    )
    if row is None:
        return None
    unused = tx.rows("select id from task where job = ? and state != 'used'", (row[0],))
    job, executor, limits, block_axis, graph, count = row
    return Kept(
        job, executor, limits, block_axis, graph, count, tuple(task for (task,) in unused),
        tuple(arrays.of_job(tx, job)),
    )  # fmt: skip


def is_kept(tx: Tx, job: str) -> bool:
    """Whether a job has ended, has its name still, and may be taken up again."""
    row = tx.one(
        f"select 1 from job j where j.id = ? and j.name is not null and {_KEEPS} and not {_LACKS}",  # noqa: S608 - constants
        (job,),
    )
    return row is not None


def kept_jobs(tx: Tx) -> list[str]:
    """All ended jobs that hold disk space for their verified results, the oldest first."""
    return [job for (job,) in tx.rows(
        f"select j.id from job j where {_KEEPS} order by j.finished_s, j.id"  # noqa: S608
    )]  # fmt: skip


def outdated(step: Step) -> list[str]:
    """Gives up what ended so long ago that nobody is expected to go on with it."""
    since_s = step.now_s - step.rules.ended_kept_s
    old = [job for (job,) in step.tx.rows(
        f"select j.id from job j where {_KEEPS} and j.finished_s < ?",  # noqa: S608 - constant
        (since_s,),
    )]  # fmt: skip
    for job in old:
        give_up(step, job)
    return old


def given_up(tx: Tx) -> list[str]:
    """Ended jobs whose files are to be deleted, and are not yet."""
    return [job for (job,) in tx.rows(
        "select distinct j.id from job j join array a on a.job = j.id where j.state in"
        " ('failed', 'cancelled') and a.complete = 0 and a.path != '' and a.final_path = ''"
    )]  # fmt: skip


def end_tasks(step: Step, job: str, state: str, culprit: int | None) -> None:
    """Ends what is not verified: leases, results on their way, inputs. For a job that ends now."""
    rows = step.tx.rows(
        "select id, number, state from task where job = ? and state not in"
        " ('used', 'cancelled', 'failed') order by number",
        (job,),
    )
    for task, number, before in rows:
        if before == "verified" and number != culprit:
            continue  # it needs nothing but its fold, which goes on
        if before == "verified":
            _uncount(step, job, task)
        _end_task(step, task, "failed" if number == culprit else "cancelled")
        if state == "cancelled":
            events.note(step, job, "cancelled", number)
    _drop_unjudged(step, job)
    _drop_outputs(step, job, "('verified', 'used')")


def _uncount(step: Step, job: str, task: int) -> None:
    """A verified result that cannot be put into its place is as good as none."""
    by = step.tx.one("select verified_by from task where id = ?", (task,))
    column = {"product": "by_product", "recompute": "by_recompute", "equality": "by_equality",
              "agreement": "by_agreement"}[by[0] if by else ""]  # fmt: skip
    step.tx.change(
        f"update job set verified = verified - 1, {column} = {column} - 1 where id = ?",  # noqa: S608
        (job,),
    )


def _end_task(step: Step, task: int, state: str) -> None:
    for lease in leases.in_states(step.tx, task, ("issued", "committed", "uploaded")):
        leases.close(step, lease, "cancelled")
        step.emit(StopLease(lease.id, lease.device))
    for (lease_id,) in step.tx.rows(
        "select id from lease where task = ? and state in ('accepted', 'rejected')", (task,)
    ):
        leases.drop_votes(step, lease_id)
    step.tx.change("delete from vote_call where task = ?", (task,))
    step.tx.change("update task set state = ?, since_s = ? where id = ?", (state, step.now_s, task))
    tasks.release_inputs(step, task)


def _drop_unjudged(step: Step, job: str) -> None:
    """Results of decided tasks that still waited for the validator's word."""
    for (lease_id,) in step.tx.rows(
        "select l.id from lease l join task t on t.id = l.task"
        " where t.job = ? and l.state = 'uploaded'",
        (job,),
    ):
        lease = leases.load(step.tx, lease_id)
        if lease is not None:
            leases.close(step, lease, "cancelled")
            tasks.release_inputs_unless_judged(step, lease.task)


def _drop_outputs(step: Step, job: str, kept_states: str) -> None:
    """Intermediates of tasks in other states than these."""
    held = step.tx.rows(
        "select o.task, o.slot, o.blob from task_output o join task t on t.id = o.task"  # noqa: S608
        f" where t.job = ? and o.array is null and o.blob is not null"
        f" and t.state not in {kept_states}",
        (job,),
    )
    for task, slot, blob in held:
        blobs.release(step, blob)
        step.tx.change(
            "update task_output set blob = null where task = ? and slot = ?", (task, slot)
        )


def give_up(step: Step, job: str) -> None:
    """Nobody will go on with this ended job: everything that it holds goes, its rows stay."""
    for (task,) in step.tx.rows("select id from task where job = ? and state = 'verified'", (job,)):
        _end_task(step, task, "cancelled")
    _drop_outputs(step, job, "('')")
    step.tx.change("update array set final_path = '' where job = ? and complete = 0", (job,))
    step.emit(DiscardResults(job))


def let_go(step: Step, job: str) -> None:
    """No task of this job will be computed again: intermediates go, results stay."""
    _drop_outputs(step, job, "('')")


def resume(
    step: Step, job: str, constraints: Constraints, priority: int, overwrites: Sequence[bool]
) -> bool:
    """Takes an ended job up again; False when it has gone on or was given up meanwhile.

    Args:
        constraints, priority: of the new submission, for all tasks from now on.
        overwrites: for each output, whether it may replace what is at its place.

    Raises:
        NodeError: `quota_disk`, `quota_tasks`.
    """
    done = step.tx.one(
        "update job as j set state = 'running', finished_s = null, error_code = '',"  # noqa: S608
        f" error_text = '', constraints = ?, priority = ? where j.id = ? and {_KEEPS}"
        " returning used, tasks, sequence, owner",
        (msgspec.json.encode(constraints).decode(), priority, job),
    )
    if done is None:
        return False
    quotas.require(step, done[3])
    for number, overwrite in enumerate(overwrites):
        step.tx.change(
            "update array set overwrite = ? where job = ? and number = ?",
            (int(overwrite), job, number),
        )
    events.note(step, job, "started", None, "resumed")
    for task, winner in step.tx.rows(
        "select id, winner from task where job = ? and state = 'verified' order by id", (job,)
    ):
        step.emit(RunWork("fold", task, winner or ""))
    rank = SANDBOX_RANK[constraints.sandbox]
    turn = lanes.turn_of(priority, done[2])
    for (task,) in step.tx.rows(
        "select id from task where job = ? and state in ('failed', 'cancelled') order by id", (job,)
    ):
        step.tx.change(
            "update task set state = 'waiting', attempt = 0, depth = 0, winner = null,"
            " verified_by = null, prio = ?, turn = ?, min_memory_bytes = ?, min_sandbox = ?,"
            " since_s = ?, waits = (select count(*) from task_input i where i.task = task.id)"
            " where id = ?",
            (-priority, turn, constraints.min_memory_bytes, rank, step.now_s, task),
        )
        tasks.collect_inputs(step, task)
    if done[0] == done[1]:
        step.emit(FinishJob(job))
    return True
