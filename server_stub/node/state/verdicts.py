"""Results on their way to a verdict: uploaded, checked, compared, recomputed, judged.

Owns: which method verifies a result, and what each answer of the workers means. The rules:

* a product is checked by the product check; nothing else is needed;
* anything else is recomputed by the validator, unless its device is trusted and an independent
  trusted one can be drawn: then the two are compared (or their hashes, in class `exact`);
* a part of those that agree is recomputed all the same;
* a refusal or a disagreement makes the task `suspect` and decides nothing: the validator does, and
  only its verdict counts against a device. Its own result is used then, so a task always ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from server_stub.node.state import (
    biases,
    blobs,
    events,
    jobs,
    leases,
    outcome,
    tasks,
    tolerances,
    trust,
    votes,
)
from server_stub.node.state.words import LOCAL_DEVICE, VALIDATOR, Party, RunWork, Step, Wake
from server_stub.node.work import Checked, Computed

__all__ = [
    "checked",
    "compared",
    "computed",
    "decide",
    "folded",
    "judged",
    "recomputed",
    "stuck",
    "uploaded",
    "work_failed",
]


UploadedState = Literal["checking", "late", "cancelled", "missing"]

UNUSED = ("result_open", "result_biased")
"""`gpugoblin.verify.compare`: no bound tells an honest result from a false one where this one
differs, or the device errs in one direction. It is credited, its bytes are not used."""


def uploaded(
    step: Step, party: Party, lease_id: str, present: Sequence[bool]
) -> tuple[UploadedState, tuple[int, ...]]:
    """All bytes of a lease are here, says its device; `present` says which really are.

    Returns:
        the state of `UploadedReply` and the slots whose bytes are missing.
    """
    lease = leases.load(step.tx, lease_id)
    task = None if lease is None else tasks.load(step.tx, lease.task)
    if lease is None or lease.device != party.device or task is None:
        return "cancelled", ()
    if lease.state in ("uploaded", "accepted", "rejected"):
        return "checking", ()
    if lease.state != "committed":
        return ("cancelled" if lease.state == "cancelled" else "late"), ()
    named = leases.votes(step.tx, lease_id)
    missing = tuple(s for s in range(len(named)) if s >= len(present) or not present[s])
    if missing:
        return "missing", missing
    step.tx.change(
        "update lease set state = 'uploaded', uploaded_s = ? where id = ?",
        (step.now_s, lease_id),
    )
    step.tx.change(
        "update job set bytes_received = bytes_received + ? where id = ?",
        (sum(nbytes for _, nbytes in named), task.job),
    )
    if lease.role == "vote":
        if task.state not in ("checking", "suspect"):
            leases.close(step, lease, "late")
            return "late", ()
        if task.state == "checking":
            decide(step, task)
        return "checking", ()
    tasks.move(step, task.id, ("leased",), "checking")
    _offer_speculatively(step, task.id, named)
    moved = tasks.load(step.tx, task.id)
    if moved is not None:
        decide(step, moved)
    return "checking", ()


def _offer_speculatively(step: Step, task_id: int, named: Sequence[tuple[str, int]]) -> None:
    """Consumers whose job allows it go on with a result that is not verified yet."""
    task = tasks.load(step.tx, task_id)
    allowed = step.tx.one(
        "select j.speculative from task t join job j on j.id = t.job where t.id = ?", (task_id,)
    )
    if task is None or allowed is None or task.depth >= allowed[0]:
        return
    for slot, (blob, nbytes) in enumerate(named):
        kept = step.tx.change(
            "update task_output set blob = ? where task = ? and slot = ? and array is null"
            " and blob is null",
            (blob, task_id, slot),
        )
        if kept:
            blobs.hold(step, blob, nbytes)
            tasks.fill(step, task, slot, blob, nbytes)


def decide(step: Step, task: tasks.TaskRow) -> None:
    """Has a task verified, once its inputs are: only verified blobs are trusted operands."""
    if task.state not in ("checking", "suspect") or not tasks.inputs_verified(step.tx, task.id):
        return
    found = leases.in_states(step.tx, task.id, ("uploaded",))
    if task.state == "suspect" or not found:
        step.emit(RunWork("recompute", task.id, found[0].id if found else ""))
        return
    first = found[0]
    if task.verify == "product":
        step.emit(RunWork("check", task.id, first.id))
        return
    if len(found) > 1:
        _two_results(step, task, first, found[1])
        return
    if votes.waits(step, task.id):
        return
    work = trust.work_of(task.flops, task.bytes_moved)
    is_asked = task.executor == "grid" and trust.is_trusted(step, first.device, work)
    is_asked = is_asked and not biases.errs(step.tx, task.job, task.graph, first.device)
    if is_asked and votes.call(step, task, first):
        return
    step.emit(RunWork("recompute", task.id, first.id))


def _two_results(
    step: Step, task: tasks.TaskRow, first: leases.LeaseRow, second: leases.LeaseRow
) -> None:
    step.tx.change("delete from vote_call where task = ?", (task.id,))
    equal = leases.votes(step.tx, first.id) == leases.votes(step.tx, second.id)
    exact = step.tx.one("select numeric_class from job where id = ?", (task.job,))
    if equal:
        _agreed(step, task, first, second, "equality")
    elif exact is not None and exact[0] == "exact":
        _suspect(step, task, first.id)
    else:
        step.emit(RunWork("compare", task.id, first.id, second.id))


def _agreed(
    step: Step, task: tasks.TaskRow, first: leases.LeaseRow, second: leases.LeaseRow, by: str
) -> None:
    """Two independent results agree: verified, unless the draw or a lost trust says recompute."""
    work = trust.work_of(task.flops, task.bytes_moved)
    both = all(
        trust.is_trusted(step, one.device, work)
        and not biases.errs(step.tx, task.job, task.graph, one.device)
        for one in (first, second)
    )
    if not both or step.rng.random() < step.rules.audit_fraction:
        step.emit(RunWork("recompute", task.id, first.id))
        return
    result = leases.votes(step.tx, first.id)
    if _accept(step, task, first.id, by, result, folded=False):
        outcome.judge_others(step, task, first.id, disputed=False)
        step.emit(RunWork("fold", task.id, first.id))


def _accept(
    step: Step, task: tasks.TaskRow, winner: str, by: str, outputs: list[tuple[str, int]],
    *, folded: bool,
) -> bool:  # fmt: skip
    """`outcome.accept`, and a decision about whoever waited for this verdict."""
    if not outcome.accept(step, task, winner, by, outputs, folded=folded):
        return False
    for consumer in outcome.held_consumers(step, task.id):
        decide(step, consumer)
    return True


def _suspect(step: Step, task: tasks.TaskRow, lease: str) -> None:
    """Somebody is wrong. What was built on this result is taken back; the validator decides."""
    if tasks.move(step, task.id, ("checking", "leased"), "suspect"):
        outcome.withdraw(step, task)
    if tasks.inputs_verified(step.tx, task.id):
        step.emit(RunWork("recompute", task.id, lease))


def checked(step: Step, task_id: int, lease: str, reply: Checked) -> None:
    """The answer of a product check. Accepted outputs are in their place already."""
    task = tasks.load(step.tx, task_id)
    row = leases.load(step.tx, lease)
    if task is None or task.state != "checking" or row is None or row.state != "uploaded":
        return
    if reply.accepted:
        _accept(step, task, lease, "product", leases.votes(step.tx, lease), folded=True)
    else:
        _suspect(step, task, lease)


def compared(step: Step, task_id: int, first: str, second: str, reply: Checked) -> None:
    """The answer of a comparison of two independent results."""
    task = tasks.load(step.tx, task_id)
    one, two = leases.load(step.tx, first), leases.load(step.tx, second)
    if task is None or task.state != "checking" or one is None or two is None:
        return
    if one.state != "uploaded" or two.state != "uploaded":
        return
    tolerances.note(step, task.job, task.graph, task.number, reply.tolerance)
    if reply.accepted:
        _agreed(step, task, one, two, "agreement")
    else:
        _suspect(step, task, first)


def recomputed(step: Step, task_id: int, lease: str, reply: Checked) -> None:
    """The validator's verdict. Where it refused, its own result is in place and used."""
    task = tasks.load(step.tx, task_id)
    if task is None or task.state not in ("checking", "suspect"):
        return
    tolerances.note(step, task.job, task.graph, task.number, reply.tolerance)
    sizes = step.tx.rows("select nbytes from task_output where task = ? order by slot", (task_id,))
    own = [(blob, size[0]) for blob, size in zip(reply.own_blobs, sizes, strict=False)]
    disputed = task.state == "suspect"
    row = leases.load(step.tx, lease) if lease else None
    if row is not None:
        biases.note(step, task.job, task.graph, row.device, reply)
    if row is not None and row.state not in ("uploaded", "accepted"):
        row = None
    if reply.accepted and row is not None:
        result = leases.votes(step.tx, lease)
        _accept(step, task, lease, "recompute", result, folded=True)
        outcome.judge_others(step, task, lease, disputed=disputed)
        return
    if not own:
        # The verdict was about a result that is gone: ask for the validator's own.
        tasks.move(step, task.id, ("checking",), "suspect")
        step.emit(RunWork("recompute", task.id))
        return
    if row is not None:
        _judge(step, task, lease, reply)
    step.tx.change(
        "insert into builds values(?, ?) on conflict do nothing",
        (task.job, reply.engine_build or VALIDATOR),
    )
    _accept(step, task, VALIDATOR, "recompute", own, folded=True)
    outcome.judge_others(step, task, "", disputed=True)


def judged(step: Step, task_id: int, lease: str, reply: Checked) -> None:
    """The validator's word on a further result of a task that is decided."""
    task = tasks.load(step.tx, task_id)
    row = leases.load(step.tx, lease)
    if task is None or row is None or row.state != "uploaded":
        return
    tolerances.note(step, task.job, task.graph, task.number, reply.tolerance)
    biases.note(step, task.job, task.graph, row.device, reply)
    _judge(step, task, lease, reply)
    tasks.release_inputs_unless_judged(step, task_id)


def _judge(step: Step, task: tasks.TaskRow, lease: str, reply: Checked) -> None:
    """What the validator's word means for a device whose result is not the one that is used."""
    if reply.accepted or reply.code in UNUSED:
        outcome.accept_lease(step, task, lease, full=reply.accepted)
        leases.drop_votes(step, lease)
    else:
        outcome.reject_lease(step, task, lease, reply.code or "result_refused")


def folded(step: Step, task_id: int) -> None:
    """Verified outputs are written into their place and synced."""
    task = tasks.load(step.tx, task_id)
    if task is not None and task.state == "verified":
        outcome.use(step, task)


def computed(step: Step, task_id: int, lease: str, reply: Computed) -> None:
    """An engine of the lab's own has done a leased task.

    The node's own engine has checked and written a product already; what another machine returns
    is kept as blobs, for others to check.
    """
    task = tasks.load(step.tx, task_id)
    row = leases.load(step.tx, lease)
    if task is None or row is None or row.state != "issued" or task.state != "leased":
        return
    step.tx.change(
        "update lease set state = 'uploaded', committed_s = ?, uploaded_s = ?, engine_build = ?,"
        " driver = ?, kernel_set = ?, sandbox_level = ?, compute_s = ? where id = ?",
        (step.now_s, step.now_s, reply.engine_build, reply.driver, reply.kernel_set,
         reply.sandbox_level, reply.compute_s, lease),
    )  # fmt: skip
    for (region,), blob in zip(
        step.tx.rows("select region from task_input where task = ? order by slot", (task_id,)),
        reply.input_blobs,
        strict=True,
    ):
        if region is not None and blob and not tasks.note_region(step, region, blob, 0):
            jobs.fail(step, task.job, "input_changed", task.number)
            return
    named = list(zip(reply.output_blobs, reply.output_nbytes, strict=True))
    kept = task.verify != "product" or row.device != LOCAL_DEVICE
    leases.add_votes(step, lease, named, held=kept)
    if reply.verified and not kept:
        # Intermediates of a checked product are kept as blobs by the worker.
        _accept(step, task, lease, "product", named, folded=True)
        return
    if not kept:
        step.tx.change("update lease set state = 'rejected', cause = ? where id = ?",
                       (reply.code, lease))  # fmt: skip
        step.tx.change("update job set lost_rejected = lost_rejected + 1 where id = ?", (task.job,))
        events.note(step, task.job, "rejected", task.number, reply.code)
        _suspect(step, task, "")
        return
    tasks.move(step, task.id, ("leased",), "checking")
    _offer_speculatively(step, task.id, named)
    moved = tasks.load(step.tx, task_id)
    if moved is not None:
        decide(step, moved)


def work_failed(step: Step, purpose: str, number: int, lease: str, code: str, text: str) -> None:
    """A work item cannot be done, for a cause that trying again would not change.

    Local computing is tried a few times, since an engine may die of what it did not cause; anything
    else ends the job with the cause, since its data or its disk is broken. A further result of a
    task that is decided (`judge`) changes nothing for the job.
    """
    if purpose == "prepare":
        row = step.tx.one("select job from region where id = ?", (number,))
        if row is not None:
            jobs.fail(step, row[0], code, None, text)
        return
    task = tasks.load(step.tx, number)
    if task is None:
        return
    if purpose == "judge":
        _unjudged(step, task, lease, code)
        return
    if purpose == "compute" and task.attempt + 1 < step.rules.local_attempts:
        row_lease = leases.load(step.tx, lease)
        if row_lease is not None and row_lease.state == "issued":
            leases.close(step, row_lease, "abandoned", code)
            leases.again(step, task, row_lease)
            events.note(step, task.job, "abandoned", task.number, code)
        return
    if code.startswith("blob_") and lease and _again_from_start(step, task):
        return
    if task.state not in ("used", "cancelled", "failed"):
        jobs.fail(step, task.job, code, task.number, text)


def _unjudged(step: Step, task: tasks.TaskRow, lease: str, code: str) -> None:
    """Nobody will ever judge this result: it ends without blame, and lets go of what it held."""
    row = leases.load(step.tx, lease)
    if row is not None and row.state == "uploaded":
        leases.close(step, row, "cancelled", code)
        tasks.release_inputs_unless_judged(step, task.id)


def _again_from_start(step: Step, task: tasks.TaskRow) -> bool:
    """A result was lost or damaged on the lab's own disk: nobody is to blame, it is made again."""
    if task.state not in ("checking", "suspect"):
        return False
    for row in leases.in_states(step.tx, task.id, ("issued", "committed", "uploaded")):
        leases.close(step, row, "cancelled", "bytes_lost")
    step.tx.change("delete from vote_call where task = ?", (task.id,))
    outcome.withdraw(step, task)
    tasks.move(step, task.id, ("checking", "suspect"), "leased")
    moved = tasks.load(step.tx, task.id)
    found = step.tx.one("select id from lease where task = ? order by issued_s desc", (task.id,))
    last = None if found is None else leases.load(step.tx, found[0])
    if moved is None or last is None:
        return False
    leases.again(step, moved, last._replace(role="first"))
    return True


def stuck(step: Step) -> None:
    """Grid tasks that came back and that nobody has taken since are the validator's."""
    rows = step.tx.rows(
        "select id from task where state = 'ready' and executor = 'grid' and attempt > 0"
        " and since_s < ? limit 16",
        (step.now_s - step.rules.stuck_s,),
    )
    for (task,) in rows:
        if tasks.inputs_verified(step.tx, task) and tasks.move(step, task, ("ready",), "suspect"):
            step.emit(RunWork("recompute", task))


def wake_all(step: Step) -> None:
    """Tells the executors to look (after a restart)."""
    step.emit(Wake("local"))
    step.emit(Wake("grid"))
    step.emit(Wake("ray"))
