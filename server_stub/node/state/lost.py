"""Bytes that the lab's own disk lost: who needed them, and how they are made again.

Owns: the way back of a task from `verified` or `used` to `waiting`, which nothing else may take. A
lost input of the grid is packed again from its array; a lost result is computed again, with those
results before it that are not kept any more; weights of a training cannot be made again, so what
is lost of them is said. Must not: open a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gpugoblin.errors import StoreError
from server_stub.node.state import blobs, events, jobs, leases, outcome, tasks, verdicts
from server_stub.node.state.words import RunWork, Step, StopLease

__all__ = ["Lost", "lose_blobs", "lose_read", "lose_results"]

COUNTERS: Final = {"product": "by_product", "recompute": "by_recompute",
                   "equality": "by_equality", "agreement": "by_agreement"}  # fmt: skip


UNREADABLE: Final = frozenset(
    {"blob_damaged", "blob_missing", "blob_truncated", "manifest_malformed"}
)


class Lost(NamedTuple):
    """What a loss meant for one job: `tasks` are computed again; `words` say what nobody can."""

    job: str
    tasks: int
    words: str


def lose_blobs(step: Step, names: Sequence[str]) -> list[Lost]:
    """These blobs cannot be read any more, and their files are out of the store."""
    found: list[Lost] = []
    needed: dict[str, set[int]] = {}
    for name in names:
        found += _lose_weights(step, name)
        _lose_votes(step, name, needed)
        _lose_inputs(step, name, needed)
        _lose_outputs(step, name, needed)
    for job, numbers in needed.items():
        found += _again(step, job, numbers)
    return found


def lose_read(step: Step, task: int, code: str, blob: str) -> bool:
    """A worker found this blob damaged or missing, as it read it for a task; says whether what the
    task needs is being made again. Its file goes with the last reference."""
    before = tasks.load(step.tx, task)
    if code not in UNREADABLE or not blob or before is None:
        return False
    lose_blobs(step, [blob])
    after = tasks.load(step.tx, task)
    return after is not None and after.state != before.state


def lose_results(step: Step, places: Iterable[tuple[int, int]]) -> list[Lost]:
    """These outputs (task, slot) are not what was verified any more in the arrays they lie in."""
    needed: dict[str, set[int]] = {}
    for task, slot in places:
        row = step.tx.one("select job from fold where task = ? and slot = ?", (task, slot))
        if row is not None:
            needed.setdefault(row[0], set()).add(task)
    return [lost for job, numbers in needed.items() for lost in _again(step, job, numbers)]


def _lose_inputs(step: Step, name: str, needed: dict[str, set[int]]) -> None:
    rows = step.tx.rows(
        "select i.task, i.slot, i.region, i.producer, t.job, t.state from task_input i"
        " join task t on t.id = i.task where i.blob = ?",
        (name,),
    )
    for task, slot, region, producer, job, state in rows:
        step.tx.change(
            "update task_input set blob = null where task = ? and slot = ?", (task, slot)
        )
        blobs.release(step, name)
        if region is not None:
            step.tx.change("update region set stored = 0 where id = ?", (region,))
        if state in ("used", "verified", "failed", "cancelled"):
            continue
        _set_back(step, task)
        if region is not None:
            step.emit(RunWork("prepare", region))
        else:
            needed.setdefault(job, set()).add(producer)


def _set_back(step: Step, task: int) -> None:
    """A task that was not decided waits for one input more; who works on it need not."""
    row = tasks.load(step.tx, task)
    if row is None:
        return
    outcome.withdraw(step, row)
    for lease in leases.in_states(step.tx, task, ("issued", "committed", "uploaded")):
        leases.close(step, lease, "cancelled", "bytes_lost")
        step.emit(StopLease(lease.id, lease.device))
    step.tx.change("delete from vote_call where task = ?", (task,))
    step.tx.change(
        "update task set state = 'waiting', waits = waits + 1, since_s = ? where id = ?",
        (step.now_s, task),
    )


def _lose_outputs(step: Step, name: str, needed: dict[str, set[int]]) -> None:
    """Kept intermediates: those that a task will still read are made again."""
    rows = step.tx.rows(
        "select o.task, o.slot, t.job, t.state, j.state from task_output o"
        " join task t on t.id = o.task join job j on j.id = t.job"
        " where o.blob = ? and o.array is null",
        (name,),
    )
    for task, slot, job, state, job_state in rows:
        step.tx.change(
            "update task_output set blob = null where task = ? and slot = ?", (task, slot)
        )
        blobs.release(step, name)
        if job_state == "running" and state in ("verified", "used"):
            needed.setdefault(job, set()).add(task)


def _lose_votes(step: Step, name: str, needed: dict[str, set[int]]) -> None:
    """Results that wait for their verdict, or for their place, are computed again."""
    for job, task in step.tx.rows(
        "select t.job, t.id from vote v join lease l on l.id = v.lease join task t on t.id = l.task"
        " where v.blob = ? and v.held = 1 and t.winner = l.id and t.state = 'verified'",
        (name,),
    ):
        needed.setdefault(job, set()).add(task)
    for lease, task in step.tx.rows(
        "select l.id, l.task from vote v join lease l on l.id = v.lease"
        " where v.blob = ? and v.held = 1 and l.state = 'uploaded'",
        (name,),
    ):
        verdicts.work_failed(step, "check", task, lease, "blob_missing", "")
    for (lease,) in step.tx.rows("select lease from vote where blob = ? and held = 1", (name,)):
        leases.drop_votes(step, lease)


def _lose_weights(step: Step, name: str) -> list[Lost]:
    """A version of weights of which a part is lost is no version any more."""
    found = []
    for job, version in step.tx.rows(
        "select distinct job, version from checkpoint where blob = ?", (name,)
    ):
        for (blob,) in step.tx.rows(
            "delete from checkpoint where job = ? and version = ? returning blob", (job, version)
        ):
            blobs.release(step, blob)
        words = f"the weights after {version} steps"
        events.note(step, job, "rejected", None, "blob_damaged")
        found.append(Lost(job, 0, words))
    return found


def _again(step: Step, job: str, wanted: set[int]) -> list[Lost]:
    """Has these results of a job computed again, with what they need of earlier ones."""
    row = step.tx.one("select state from job where id = ?", (job,))
    if row is None or row[0] not in ("running", "done"):
        return []
    if step.tx.one("select 1 from training where job = ?", (job,)) is not None:
        # A round has let go of what it was made from.
        error = StoreError("blob_missing", blob="(an intermediate result of this training)")
        jobs.fail(step, job, error.code, None, str(error))
        return [Lost(job, 0, "the training cannot go on; its kept weights are there")]
    numbers = _with_producers(step, wanted)
    for task in numbers:
        _take_back(step, job, task)
    if row[0] == "done":
        step.tx.change("update job set state = 'running', finished_s = null where id = ?", (job,))
        step.tx.change("update array set complete = 0 where job = ?", (job,))
        events.note(step, job, "started", None, "bytes_lost")
    for task in numbers:
        tasks.collect_inputs(step, task)
    return [Lost(job, len(numbers), "")] if numbers else []


def _with_producers(step: Step, wanted: set[int]) -> list[int]:
    """Verified results, and the results before them that are not kept; in the plan's order."""
    numbers: dict[int, int] = {}
    front = set(wanted)
    while front:
        task = front.pop()
        row = tasks.load(step.tx, task)
        if task in numbers or row is None or row.state not in ("verified", "used"):
            continue
        numbers[task] = row.number
        front |= {producer for (producer,) in step.tx.rows(
            "select i.producer from task_input i join task_output o on o.task = i.producer"
            " and o.slot = i.producer_slot where i.task = ? and o.blob is null",
            (task,),
        )}  # fmt: skip
    return sorted(numbers, key=numbers.__getitem__)


def _take_back(step: Step, job: str, task: int) -> None:
    """A verified result is as good as none: the counters, its record and its reads go back."""
    found = step.tx.one("select state, verified_by from task where id = ?", (task,))
    assert found is not None  # noqa: S101 - looked at in this transaction
    column = COUNTERS[found[1]]
    used = int(found[0] == "used")
    step.tx.change(
        f"update job set verified = verified - 1, used = used - ?, {column} = {column} - 1"  # noqa: S608
        " where id = ?",
        (used, job),
    )
    if used:
        step.tx.change("delete from fold where task = ?", (task,))
        step.tx.change(
            "update task set consumers_left = consumers_left + 1 where id in"
            " (select producer from task_input where task = ? and producer is not null)",
            (task,),
        )
    for lease in leases.in_states(step.tx, task, ("uploaded",)):
        leases.close(step, lease, "cancelled", "bytes_lost")
    tasks.release_inputs(step, task)
    for slot, blob in step.tx.rows(
        "select slot, blob from task_output where task = ? and array is null and blob is not null",
        (task,),
    ):
        blobs.release(step, blob)
        step.tx.change(
            "update task_output set blob = null where task = ? and slot = ?", (task, slot)
        )
    step.tx.change(
        "update task set state = 'waiting', attempt = 0, depth = 0, winner = null,"
        " verified_by = null, since_s = ?,"
        " waits = (select count(*) from task_input i where i.task = task.id) where id = ?",
        (step.now_s, task),
    )
