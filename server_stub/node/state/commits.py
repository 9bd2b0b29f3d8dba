"""Commits: a device names the hashes of results, and the lab awaits their bytes or says why not.

Owns: the step of a lease from `issued` to `committed`, and what becomes of results that come after
their lease. Results of one request whose leases are as they should be are written together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gpugoblin.wire.messages.task import Result
from server_stub.node.state import bulk, events, leases, tasks
from server_stub.node.state.words import Party, Step
from server_stub.node.store.protocol import Tx, Value

__all__ = ["commit"]

_LOOK: Final = (
    "select l.id, l.task, l.job, l.role, l.device, l.owner, l.state, l.until_s, t.number,"
    " exists (select 1 from vote v where v.lease = l.id), o.nbytes"
    " from lease l join task t on t.id = l.task join task_output o on o.task = l.task"
    " where l.id in ({marks}) order by l.id, o.slot"
)
_WRITE: Final = (
    "update lease set state = ?, committed_s = ?, until_s = ?, claim = ?, engine_build = ?,"
    " driver = ?, kernel_set = ?, sandbox_level = ?, compute_s = ? where id = ?"
)
_WRITE_ALL: Final = (
    "with given(id, claim, build, driver, kernels, level, compute_s) as (values {rows})"
    " update lease set state = ?, committed_s = ?, until_s = ?, claim = given.claim,"
    " engine_build = given.build, driver = given.driver, kernel_set = given.kernels,"
    " sandbox_level = given.level, compute_s = given.compute_s from given where lease.id = given.id"
)


class _Looked(NamedTuple):
    """A lease that is to be committed, its task's number, and the bytes of each output.

    `has_votes`: hashes were named for it before.
    """

    lease: leases.LeaseRow
    number: int
    has_votes: bool
    nbytes: list[int]


class _Fresh(NamedTuple):
    """A result that came in time."""

    result: Result
    looked: _Looked
    named: Sequence[tuple[str, int]]


def commit(step: Step, results: Sequence[tuple[Party, Result]]) -> list[str]:
    """Devices name the hashes of results. Each gets "" when its bytes are awaited now.

    Otherwise a code that says why nothing is awaited: `unknown_lease`, `already_committed`,
    `outputs_mismatch`, `late`, `cancelled`.
    """
    known = _look(step.tx, [result.lease for _, result in results])
    fresh: list[_Fresh] = []
    codes = []
    for party, result in results:
        # Taken out: whoever names a lease twice is told what the first time made of it.
        looked = known.get(result.lease)
        named = [(ref.blob, ref.nbytes) for ref in result.outputs]
        if (
            looked is not None
            and looked.lease.device == party.device
            and looked.lease.state == "issued"
            and not looked.has_votes
            and looked.nbytes == [nbytes for _, nbytes in named]
        ):
            del known[result.lease]
            fresh.append(_Fresh(result, looked, named))
            codes.append("")
            continue
        _write_fresh(step, fresh)
        fresh = []
        if looked is not None and looked.lease.device == party.device:
            del known[result.lease]
        codes.append(_commit_otherwise(step, party, result, named))
    _write_fresh(step, fresh)
    return codes


def _look(tx: Tx, wanted: Sequence[str]) -> dict[str, _Looked]:
    found: dict[str, _Looked] = {}
    for begin in range(0, len(wanted), bulk.AT_ONCE):
        marks, values = bulk.marks(wanted[begin : begin + bulk.AT_ONCE])
        for row in tx.rows(_LOOK.format(marks=marks), values):
            looked = found.get(row[0])
            if looked is None:
                lease = leases.LeaseRow(*row[:-3])
                found[row[0]] = _Looked(lease, row[-3], bool(row[-2]), [row[-1]])
            else:
                looked.nbytes.append(row[-1])
    return found


def _write_fresh(step: Step, fresh: Sequence[_Fresh]) -> None:
    for some in bulk.pieces(fresh):
        if len(some) == 1:
            _write(step, some[0].result, "committed")
            continue
        values: list[Value] = []
        for result, _, _ in some:
            values += (result.lease, result.claim, result.engine_build, result.driver)
            values += (result.kernel_set, result.sandbox_level, result.counters.compute_s)
        rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(some))
        values += ("committed", step.now_s, step.now_s + step.rules.upload_s)
        step.tx.change(_WRITE_ALL.format(rows=rows), values)
    leases.add_first_votes(step, [(each.result.lease, each.named) for each in fresh])
    for each in fresh:
        events.note(step, each.looked.lease.job, "committed", each.looked.number)


def _commit_otherwise(
    step: Step, party: Party, result: Result, named: Sequence[tuple[str, int]]
) -> str:
    """A commit that does not follow a lease in time, or not with what the lease asked for."""
    looked = _look(step.tx, [result.lease]).get(result.lease)
    lease = leases.load(step.tx, result.lease) if looked is None else looked.lease
    if lease is None or lease.device != party.device:
        return "unknown_lease"
    if looked is None:
        return "cancelled"
    if lease.state == "committed":
        return "" if leases.votes(step.tx, lease.id) == named else "already_committed"
    fits = looked.nbytes == [nbytes for _, nbytes in named]
    if lease.state != "issued":
        refused = _commit_over(step, lease, result, named, fits)
        if refused:
            return refused
    elif not fits:
        leases.close(step, lease, "abandoned", "outputs_mismatch")
        task = tasks.load(step.tx, lease.task)
        if task is not None:
            leases.again(step, task, lease)
        return "outputs_mismatch"
    _write(step, result, "committed")
    leases.add_votes(step, lease.id, named, held=True)
    events.note(step, lease.job, "committed", looked.number)
    return ""


def _commit_over(
    step: Step, lease: leases.LeaseRow, result: Result, named: Sequence[tuple[str, int]],
    fits: bool,
) -> str:  # fmt: skip
    """A commit of a lease that is over. Returns "" when it lives again."""
    if lease.state != "expired":
        return "cancelled" if lease.state == "cancelled" else "late"
    if not fits:
        return "outputs_mismatch"
    task = tasks.load(step.tx, lease.task)
    if task is None:
        return "cancelled"
    if task.state != "ready" or lease.role != "first":
        return _late(step, task, lease, result, named)
    # Nobody else has taken it: the old lease lives again.
    tasks.move(step, task.id, ("ready",), "leased")
    return ""


def _write(step: Step, result: Result, state: str) -> None:
    step.tx.change(
        _WRITE,
        (state, step.now_s, step.now_s + step.rules.upload_s, result.claim, result.engine_build,
         result.driver, result.kernel_set, result.sandbox_level, result.counters.compute_s,
         result.lease),
    )  # fmt: skip


def _late(
    step: Step, task: tasks.TaskRow, lease: leases.LeaseRow, result: Result,
    named: Sequence[tuple[str, int]],
) -> str:  # fmt: skip
    """Somebody else has the task: the hashes are kept and credited if they turn out right."""
    _write(step, result, "late")
    leases.add_votes(step, lease.id, named, held=False)
    step.tx.change("update job set lost_late = lost_late + 1 where id = ?", (lease.job,))
    if task.state == "used":
        leases.credit_late(step, task)
    return "late"
