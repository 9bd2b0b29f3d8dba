"""A job's diary: numbered without gaps, written in the transaction of what it tells.

Owns: table `event` and the job's counter of events.
"""

from __future__ import annotations

from gpugoblin.wire.messages.job import JobEvent, JobEvents
from server_stub.node.state.words import JobChanged, Step
from server_stub.node.store.protocol import Tx

__all__ = ["MAX_EVENTS", "note", "read", "settle"]

MAX_EVENTS = 10_000


def note(step: Step, job: str, kind: str, number: int | None = None, detail: str = "") -> None:
    """Adds an event to a job; `number` is the index of the task. See `settle`."""
    step.notes.append((job, kind, number, detail))
    if kind not in ("leased", "committed"):
        step.emit(JobChanged(job))


def settle(step: Step) -> None:
    """Ends a step: writes what was noted, numbered in order, with one look at each job's row."""
    by_job: dict[str, list[tuple[str, str, int | None, str]]] = {}
    for entry in step.notes:
        by_job.setdefault(entry[0], []).append(entry)
    for job in (*by_job, *(job for job in step.sent_bytes if job not in by_job)):
        entries = by_job.get(job, [])
        found = step.tx.one(
            "update job set events = events + ?, bytes_sent = bytes_sent + ? where id = ?"
            " returning events",
            (len(entries), step.sent_bytes.get(job, 0), job),
        )
        if found is None:
            continue
        first = found[0] - len(entries) + 1
        for place, (_, kind, number, detail) in enumerate(entries):
            step.tx.change(
                "insert into event values(?, ?, ?, ?, ?, ?)",
                (job, first + place, step.now_s, kind, number, detail),
            )
    step.notes.clear()
    step.sent_bytes.clear()


def read(tx: Tx, job: str, after: int) -> JobEvents:
    """The events of a job after a number, at most 10,000."""
    rows = tx.rows(
        "select number, at_s, kind, task_index, detail from event"
        " where job = ? and number > ? order by number limit ?",
        (job, after, MAX_EVENTS),
    )
    return JobEvents(tuple(JobEvent(*row) for row in rows))
