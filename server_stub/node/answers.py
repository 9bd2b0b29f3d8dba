"""Answers of the workers, handed to the right handler of the state machine.

Owns: that table. Must not: decide anything.
"""

from __future__ import annotations

from gpugoblin.errors import GoblinError, NodeError
from server_stub.node.state import jobs, tasks, verdicts
from server_stub.node.state.words import JobChanged, RunWork, Step
from server_stub.node.work import (
    BlobOutput,
    Checked,
    Compute,
    Computed,
    Prepared,
    Recompute,
    Reply,
    Work,
)

__all__ = ["apply", "kept_blobs", "waiting"]


def kept_blobs(item: Work, reply: Reply) -> list[str]:
    """Blobs that the worker has just stored and that the transaction will name first."""
    match item, reply:
        case _, Prepared():
            return [reply.blob]
        case Compute(), Computed():
            stored = reply.verified or item.verify != "product"
            places = zip(item.outputs, reply.output_blobs, strict=False)
            kept_all = item.verify != "product"
            return [b for o, b in places if stored and (kept_all or isinstance(o, BlobOutput))]
        case Recompute(), Checked():
            places = zip(item.outputs, reply.own_blobs, strict=False)
            return [b for o, b in places if isinstance(o, BlobOutput)]
        case _:
            return []


def apply(step: Step, effect: RunWork, reply: Reply) -> None:
    """Tells the state machine what became of a work item."""
    match effect.purpose, reply:
        case "prepare", Prepared():
            if not tasks.prepared(step, effect.task, reply.blob, reply.nbytes):
                fail_changed(step, effect.task)
        case "compute", Computed():
            verdicts.computed(step, effect.task, effect.lease, reply)
        case "check", Checked():
            verdicts.checked(step, effect.task, effect.lease, reply)
        case "recompute", Checked():
            verdicts.recomputed(step, effect.task, effect.lease, reply)
        case "judge", Checked():
            verdicts.judged(step, effect.task, effect.lease, reply)
        case "compare", Checked():
            verdicts.compared(step, effect.task, effect.lease, effect.second, reply)
        case "fold", _:
            verdicts.folded(step, effect.task)
        case _:
            raise TypeError(f"a worker answered {effect.purpose} with {type(reply).__name__}")


def fail_changed(step: Step, region: int) -> None:
    """A region held something else when it was read before: the job cannot be trusted."""
    row = step.tx.one("select job from region where id = ?", (region,))
    if row is not None:
        error = NodeError("input_changed", task="-")
        jobs.fail(step, row[0], error.code, None, str(error))


def waiting(step: Step, effect: RunWork, error: GoblinError) -> None:
    """The item is tried again; meanwhile the running job says what it waits for."""
    table = "region" if effect.purpose == "prepare" else "task"
    row = step.tx.one(f"select job from {table} where id = ?", (effect.task,))  # noqa: S608
    if row is not None:
        step.tx.change(
            "update job set error_code = ?, error_text = ? where id = ? and state = 'running'",
            (error.code, str(error)[:4096], row[0]),
        )
        step.emit(JobChanged(row[0]))
