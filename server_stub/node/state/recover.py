"""The first step after a start: what a crash left half done goes on.

Owns: nothing but the list of what to look at. Everything that is in memory only (work items, local
leases, files to be deleted) follows from rows, so a restart changes nothing that anyone can see.
"""

from __future__ import annotations

from server_stub.node.state import blobs, ended, jobs, leases, tasks, verdicts
from server_stub.node.state.words import (
    DiscardResults,
    FinishJob,
    RunWork,
    Step,
    Wake,
)

__all__ = ["recover"]


def recover(step: Step) -> None:
    """Local leases become ready again, undecided results are sent to the workers again."""
    for (lease_id,) in step.tx.rows(
        "select id from lease where grant_id = '' and state = 'issued'"
    ):
        lease = leases.load(step.tx, lease_id)
        task = None if lease is None else tasks.load(step.tx, lease.task)
        if lease is not None and task is not None:
            leases.close(step, lease, "cancelled", "restart")
            # The engine was not at fault: this counts as no attempt.
            tasks.move(step, task.id, ("leased",), "ready")
    for job in jobs.running(step.tx):
        _resume(step, job)
    for lease_id, task_id in step.tx.rows(
        "select l.id, l.task from lease l join task t on t.id = l.task"
        " where l.state = 'uploaded' and t.state in ('verified', 'used')"
    ):
        step.emit(RunWork("judge", task_id, lease_id))
    for job in ended.given_up(step.tx):
        step.emit(DiscardResults(job))
    for (blob,) in step.tx.rows("select blob from lent"):
        blobs.release(step, blob)
    step.tx.change("delete from lent")
    blobs.forgotten(step)
    step.emit(Wake("local"))
    step.emit(Wake("grid"))
    step.emit(Wake("ray"))


def _resume(step: Step, job: str) -> None:
    if step.tx.one("select 1 from job where id = ? and used = tasks", (job,)) is not None:
        step.emit(FinishJob(job))
        return
    for task_id, state in step.tx.rows(
        "select id, state from task where job = ? and state in ('checking', 'suspect', 'verified')"
        " order by id",
        (job,),
    ):
        task = tasks.load(step.tx, task_id)
        if task is None:
            continue
        if state == "verified":
            step.emit(RunWork("fold", task_id, task.winner or ""))
        else:
            verdicts.decide(step, task)
    for (region,) in step.tx.rows(
        "select distinct i.region from task_input i join task t on t.id = i.task"
        " where t.job = ? and t.state = 'waiting' and t.executor != 'local'"
        " and i.region is not null and i.blob is null",
        (job,),
    ):
        step.emit(RunWork("prepare", region))
