"""A job's diary: numbered without gaps, written in the transaction of what it tells.

Owns: table `event` and the job's counter of events.
"""

from __future__ import annotations

from gpugoblin.wire.messages.job import JobEvent, JobEvents
from server_stub.node.state.words import JobChanged, Step
from server_stub.node.store.protocol import Tx

__all__ = ["MAX_EVENTS", "note", "read"]

MAX_EVENTS = 10_000


def note(step: Step, job: str, kind: str, number: int | None = None, detail: str = "") -> None:
    """Adds an event to a job; `number` is the index of the task."""
    found = step.tx.one("update job set events = events + 1 where id = ? returning events", (job,))
    if found is None:
        return
    step.tx.change(
        "insert into event values(?, ?, ?, ?, ?, ?)",
        (job, found[0], step.now_s, kind, number, detail),
    )
    if kind not in ("leased", "committed"):
        step.emit(JobChanged(job))


def read(tx: Tx, job: str, after: int) -> JobEvents:
    """The events of a job after a number, at most 10,000."""
    rows = tx.rows(
        "select number, at_s, kind, task_index, detail from event"
        " where job = ? and number > ? order by number limit ?",
        (job, after, MAX_EVENTS),
    )
    return JobEvents(tuple(JobEvent(*row) for row in rows))
