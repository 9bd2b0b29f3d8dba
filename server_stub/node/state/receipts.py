"""Receipts to the coordinator: an outbox, filled in the transaction of the verdict.

Owns: table `outbox`. One receipt a lease, for verified work only: `max(flops / unit_flops,
bytes / unit_bytes)`, never claimed time, and in few digits, since it leaves the lab. A lease
without the device's claim (the lab's own engine) earns none. Sending is repeated until the
coordinator has answered; it books a receipt once.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpugoblin.ids import GrantId, LeaseId, ReceiptId
from gpugoblin.wire.messages.receipt import Receipt
from server_stub.node.state import grid_hours
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = ["MAX_BATCH", "credit", "refused", "sent", "units_of", "waiting"]

MAX_BATCH = 500
UNIT_DIGITS = 3
"""Exact units would be the operations of a task, and their factors its shape."""


def units_of(step: Step, flops: int, bytes_moved: int) -> float:
    """The units of one task, rounded; never zero, so that a tiny task is still work."""
    rules = step.rules
    units = max(flops / rules.unit_flops, bytes_moved / rules.unit_bytes, 1e-9)
    return float(f"{units:.{UNIT_DIGITS}g}")


def credit(step: Step, lease: str, job: str, flops: int, bytes_moved: int) -> None:
    """A lease is accepted: its job's credits grow and, with a claim, a receipt is written."""
    row = step.tx.one(
        "select grant_id, claim, compute_s, issued_s, committed_s from lease where id = ?", (lease,)
    )
    if row is None or row[1] is None:
        return
    units = units_of(step, flops, bytes_moved)
    added = step.tx.change(
        "insert into outbox(receipt, grant_id, lease, signature, units, verified_s)"
        " values(?, ?, ?, ?, ?, ?) on conflict(lease) do nothing",
        (step.fresh_id("receipt"), row[0], lease, row[1], units, step.now_s),
    )
    if added == 1:
        step.tx.change("update job set credits = credits + ? where id = ?", (units, job))
        seconds = grid_hours.of_lease(*row[2:])
        step.grid_s[job] = step.grid_s.get(job, 0.0) + seconds


def waiting(tx: Tx) -> tuple[Receipt, ...]:
    """The oldest receipts that the coordinator has not answered, at most one batch."""
    rows = tx.rows(
        "select receipt, grant_id, lease, signature, units, verified_s from outbox"
        " where sent_s is null order by verified_s limit ?",
        (MAX_BATCH,),
    )
    return tuple(
        Receipt(ReceiptId(receipt), GrantId(grant), LeaseId(lease), signature, units, at_s)
        for receipt, grant, lease, signature, units, at_s in rows
    )


def sent(step: Step, receipts: Iterable[str]) -> None:
    """The coordinator has booked these, or refused them for good (see `refused`)."""
    for receipt in receipts:
        step.tx.change(
            "update outbox set sent_s = ? where receipt = ? and sent_s is null",
            (step.now_s, receipt),
        )


def refused(step: Step, receipt: str, code: str) -> None:
    """The coordinator has refused a receipt; it is kept with the reason and not sent again."""
    step.tx.change("update outbox set refused = ? where receipt = ?", (code, receipt))
