"""What a verdict does: verified, used once, rejected, and the cascade downstream.

Owns: the moves `checking | suspect -> verified -> used`, table `fold`, and the cancelling of
whatever was computed from a blob that turned out wrong. `used` is reached once: in the transaction
that writes the record of the fold, guarded by the state it leaves.
"""

from __future__ import annotations

import json

from server_stub.node.state import blobs, events, leases, receipts, tasks, trust
from server_stub.node.state.words import VALIDATOR, FinishJob, RunWork, Step, StopLease
from server_stub.node.training import rows as trainings

__all__ = [
    "accept",
    "accept_lease",
    "held_consumers",
    "judge_others",
    "reject_lease",
    "use",
    "withdraw",
]

_COUNTER = {
    "product": "by_product",
    "recompute": "by_recompute",
    "equality": "by_equality",
    "agreement": "by_agreement",
}


def accept(
    step: Step, task: tasks.TaskRow, winner: str, by: str, outputs: list[tuple[str, int]],
    *, folded: bool,
) -> bool:  # fmt: skip
    """The result `outputs` (blob, bytes by slot) of `winner` is verified; False if it was before.

    Args:
        winner: a lease, or `validator`.
        folded: its bytes are in their place on disk already.
    """
    if not tasks.move(step, task.id, ("leased", "checking", "suspect"), "verified"):
        return False
    step.tx.change(
        "update task set winner = ?, verified_by = ? where id = ?", (winner, by, task.id)
    )
    step.tx.change(
        f"update job set verified = verified + 1, {_COUNTER[by]} = {_COUNTER[by]} + 1"  # noqa: S608
        " where id = ?",
        (task.job,),
    )
    step.tx.change("delete from vote_call where task = ?", (task.id,))
    if winner != VALIDATOR:
        accept_lease(step, task, winner, full=by in ("product", "recompute"))
    withdraw(step, task, keep=[blob for blob, _ in outputs])
    _set_outputs(step, task, outputs)
    events.note(step, task.job, "verified", task.number, by)
    _cancel_live_votes(step, task)
    verified = tasks.load(step.tx, task.id)
    assert verified is not None  # noqa: S101 - moved above
    for slot, (blob, nbytes) in enumerate(outputs):
        tasks.fill(step, verified, slot, blob, nbytes)
    if folded:
        use(step, verified)
    return True


def accept_lease(step: Step, task: tasks.TaskRow, lease: str, *, full: bool) -> None:
    """A lease's result stands: credit, a receipt, and trust if it was checked in full."""
    row = leases.load(step.tx, lease)
    if row is None or row.state == "accepted":
        return
    step.tx.change("update lease set state = 'accepted' where id = ?", (lease,))
    step.tx.change(
        "insert into builds select job, engine_build from lease where id = ?"
        " and engine_build != '' on conflict do nothing",
        (lease,),
    )
    receipts.credit(step, lease, task.job, task.flops, task.bytes_moved)
    trust.measured(step, lease, task.flops)
    if full:
        trust.passed(step, row.device, trust.work_of(task.flops, task.bytes_moved))


def reject_lease(step: Step, task: tasks.TaskRow, lease: str, code: str) -> None:
    """The validator's word: this result is wrong. Its bytes go, its device starts anew."""
    row = leases.load(step.tx, lease)
    if row is None or row.state in ("accepted", "rejected"):
        return
    leases.close(step, row, "rejected", code)
    step.tx.change("update job set lost_rejected = lost_rejected + 1 where id = ?", (task.job,))
    events.note(step, task.job, "rejected", task.number, code)
    trust.rejected(step, row.device, task.job, task.number)


def _set_outputs(step: Step, task: tasks.TaskRow, outputs: list[tuple[str, int]]) -> None:
    """Keeps intermediates for their consumers, and remembers the hash of every output."""
    for slot, (blob, nbytes) in enumerate(outputs):
        before = step.tx.one(
            "select blob, array from task_output where task = ? and slot = ?", (task.id, slot)
        )
        if before is None:
            continue
        old, array = before
        if array is None and old != blob:
            blobs.hold(step, blob, nbytes)
            if old is not None:
                blobs.release(step, old)
        step.tx.change(
            "update task_output set blob = ? where task = ? and slot = ?", (blob, task.id, slot)
        )


def held_consumers(step: Step, task: int) -> list[tasks.TaskRow]:
    """Consumers that ran ahead and were held until their inputs are verified: judge them now."""
    held = step.tx.rows(
        "select distinct t.id from task_input i join task t on t.id = i.task"
        " where i.producer = ? and t.state in ('checking', 'suspect')",
        (task,),
    )
    return [row for (consumer,) in held if (row := tasks.load(step.tx, consumer)) is not None]


def use(step: Step, task: tasks.TaskRow) -> bool:
    """The result is folded: the record is written here and nowhere else. False if it was before."""
    if not tasks.move(step, task.id, ("verified",), "used"):
        return False
    for slot, array, box, blob in step.tx.rows(
        "select slot, array, box, blob from task_output where task = ?", (task.id,)
    ):
        start, stop = json.loads(box)
        step.tx.change(
            "insert into fold values(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (task.id, slot, task.job, array, start[0] if start else 0, stop[0] if stop else 1,
             box, blob, step.now_s),
        )  # fmt: skip
    trainings.used(step, task)
    events.note(step, task.job, "used", task.number)
    for (lease,) in step.tx.rows(
        "select id from lease where task = ? and state in ('accepted', 'rejected')", (task.id,)
    ):
        leases.drop_votes(step, lease)
    _let_go_of_producers(step, task)
    tasks.release_inputs_unless_judged(step, task.id)
    _drop_outputs_without_readers(step, task.id)
    leases.credit_late(step, task)
    done = step.tx.one(
        "update job set used = used + 1 where id = ? returning used, tasks, state", (task.job,)
    )
    if done is not None and done[0] == done[1] and done[2] == "running":
        step.emit(FinishJob(task.job))
    return True


def _let_go_of_producers(step: Step, task: tasks.TaskRow) -> None:
    """One consumer less for each task that this one read from."""
    for (producer,) in step.tx.rows(
        "select distinct producer from task_input where task = ? and producer is not null",
        (task.id,),
    ):
        step.tx.change(
            "update task set consumers_left = consumers_left - 1 where id = ?", (producer,)
        )
        _drop_outputs_without_readers(step, producer)


def _drop_outputs_without_readers(step: Step, task: int) -> None:
    kept = step.tx.rows(
        "select o.slot, o.blob from task_output o join task t on t.id = o.task where t.id = ?"
        " and t.state = 'used' and t.consumers_left <= 0 and o.array is null"
        " and o.blob is not null",
        (task,),
    )
    for slot, blob in kept:
        blobs.release(step, blob)
        step.tx.change(
            "update task_output set blob = null where task = ? and slot = ?", (task, slot)
        )


def _cancel_live_votes(step: Step, task: tasks.TaskRow) -> None:
    """Nobody needs to go on with this task."""
    for lease in leases.in_states(step.tx, task.id, ("issued", "committed")):
        leases.close(step, lease, "cancelled")
        step.emit(StopLease(lease.id, lease.device))


def withdraw(step: Step, task: tasks.TaskRow, keep: list[str] | None = None) -> int:
    """Takes back the blobs of `task` that consumers run ahead with, in this transaction.

    Every task downstream that holds one of them, at any distance, loses its leases and results
    and waits again. Blobs in `keep` turned out right, and their consumers are left alone.

    Returns:
        how many tasks were set back.
    """
    count = 0
    front = [task.id]
    if keep is None:
        _drop_speculative_outputs(step, task.id)
    while front:
        producer = front.pop()
        rows = step.tx.rows(
            "select i.task, i.slot, i.blob, i.producer_slot from task_input i"
            " join task t on t.id = i.task where i.producer = ? and i.blob is not null"
            " and t.state not in ('used', 'failed', 'cancelled', 'verified')",
            (producer,),
        )
        touched: dict[int, int] = {}
        for consumer, slot, blob, output in rows:
            if producer == task.id and keep is not None and keep[output] == blob:
                continue
            step.tx.change(
                "update task_input set blob = null where task = ? and slot = ?", (consumer, slot)
            )
            blobs.release(step, blob)
            touched[consumer] = touched.get(consumer, 0) + 1
        for consumer, lost in touched.items():
            _set_back(step, consumer, lost)
            front.append(consumer)
            count += 1
        if producer != task.id:
            _drop_speculative_outputs(step, producer)
    return count


def _set_back(step: Step, task: int, lost_inputs: int) -> None:
    row = tasks.load(step.tx, task)
    if row is None:
        return
    for lease in leases.in_states(step.tx, task, ("issued", "committed", "uploaded")):
        leases.close(step, lease, "cancelled", "inputs_rejected")
        step.emit(StopLease(lease.id, lease.device))
    step.tx.change("delete from vote_call where task = ?", (task,))
    step.tx.change(
        "update task set state = 'waiting', waits = waits + ?, depth = 0, since_s = ? where id = ?",
        (lost_inputs, step.now_s, task),
    )


def _drop_speculative_outputs(step: Step, task: int) -> None:
    for slot, blob in step.tx.rows(
        "select slot, blob from task_output where task = ? and array is null and blob is not null",
        (task,),
    ):
        blobs.release(step, blob)
        step.tx.change(
            "update task_output set blob = null where task = ? and slot = ?", (task, slot)
        )


def judge_others(step: Step, task: tasks.TaskRow, winner: str, *, disputed: bool) -> None:
    """The other results of a task that is decided: right with it, or judged one by one."""
    for lease in leases.in_states(step.tx, task.id, ("uploaded",)):
        if lease.id == winner:
            continue
        if disputed:
            step.emit(RunWork("judge", task.id, lease.id))
        else:
            accept_lease(step, task, lease.id, full=False)
            leases.drop_votes(step, lease.id)
    tasks.release_inputs_unless_judged(step, task.id)
