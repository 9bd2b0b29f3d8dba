"""A job's diary: numbered without gaps, written in the transaction of what it tells.

Owns: table `event` and the job's counter of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.wire.messages.job import JobEvent, JobEvents
from server_stub.node.state import bulk, grid_hours
from server_stub.node.state.words import JobChanged, Step
from server_stub.node.store.protocol import Tx

__all__ = ["MAX_EVENTS", "note", "read", "settle"]

MAX_EVENTS: Final = 10_000


def note(step: Step, job: str, kind: str, number: int | None = None, detail: str = "") -> None:
    """Adds an event to a job; `number` is the index of the task. See `settle`."""
    step.notes.append((job, kind, number, detail))
    if kind not in ("leased", "committed"):
        step.emit(JobChanged(job))


def settle(tx: Tx, steps: Sequence[Step]) -> None:
    """Ends the steps of a transaction: writes what they noted, numbered in order.

    With one look at each job's row, whatever the number of steps: the row is long.
    """
    by_job: dict[str, list[tuple[float, str, int | None, str]]] = {}
    sent_bytes: dict[str, int] = {}
    for step in steps:
        for job, kind, number, detail in step.notes:
            by_job.setdefault(job, []).append((step.now_s, kind, number, detail))
        if step.grid_s:
            grid_hours.add(tx, step.now_s, step.grid_s)
        for job, nbytes in step.sent_bytes.items():
            sent_bytes[job] = sent_bytes.get(job, 0) + nbytes
    for job in (*by_job, *(job for job in sent_bytes if job not in by_job)):
        entries = by_job.get(job, [])
        found = tx.one(
            "update job set events = events + ?, bytes_sent = bytes_sent + ? where id = ?"
            " returning events",
            (len(entries), sent_bytes.get(job, 0), job),
        )
        if found is not None:
            _write(tx, job, found[0] - len(entries) + 1, entries)


def _write(
    tx: Tx, job: str, first: int, entries: Sequence[tuple[float, str, int | None, str]]
) -> None:
    rows = [(job, number, *entry) for number, entry in enumerate(entries, first)]
    bulk.insert(tx, "insert into event values", "(?, ?, ?, ?, ?, ?)", rows)


def read(tx: Tx, job: str, after: int) -> JobEvents:
    """The events of a job after a number, at most 10,000."""
    rows = tx.rows(
        "select number, at_s, kind, task_index, detail from event"
        " where job = ? and number > ? order by number limit ?",
        (job, after, MAX_EVENTS),
    )
    return JobEvents(tuple(JobEvent(*row) for row in rows))
