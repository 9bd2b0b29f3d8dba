"""Lab nodes: demand, receipts, revocations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.wire.messages.contact import Demand, Revocations
from gpugoblin.wire.messages.receipt import Receipt, ReceiptBatch, ReceiptBatchReply
from gpugoblin.wire.signing import sign_claim
from gpugoblin.wire.tickets import RevocationList, verify_revocations
from server_stub.coordinator import ledger
from server_stub.coordinator.handlers import node
from server_stub.coordinator.handlers.operator import revoke_device, revoke_grant
from tests.helpers.coordinator import Desk, Device, Lab, memory


def book(lab: Lab, *receipts: Receipt) -> ReceiptBatchReply:
    batch = ReceiptBatch(lab.name, receipts)
    return lab.desk.ask(node.receipts, lab.key, batch, "192.0.2.9")


def listed(lab: Lab) -> RevocationList:
    reply: Revocations = lab.desk.ask(node.revocations, lab.key, lab.name, "192.0.2.9")
    found = verify_revocations(
        reply.ticket,
        keys=[lab.desk.house.public_key],
        audience=lab.name,
        now_s=lab.desk.now_s,
        known_number=reply.number,
    )
    assert found.number == reply.number
    return found


def test_demand_is_answered_with_the_key_that_signs_tickets(desk: Desk) -> None:
    lab = desk.lab()
    reply = desk.ask(node.demand, lab.key, Demand(lab.name, 7), "")
    assert reply.coordinator_key == desk.house.public_key
    assert reply.next_poll_s == 30


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (node.demand, lambda lab: Demand(lab, 1)),
        (node.revocations, lambda lab: lab),
        (node.receipts, lambda lab: ReceiptBatch(lab, ())),
    ],
)
def test_another_key_speaks_for_no_lab(
    desk: Desk, handler: Callable[..., Any], message: Callable[[str], Any]
) -> None:
    lab, other = desk.lab("lab-a"), desk.lab("lab-b")
    wrong = "coordinator_lab_unknown"
    assert desk.refused(handler, other.key, message(lab.name)) == wrong
    assert desk.refused(handler, Ed25519PrivateKey.generate(), message(lab.name)) == wrong
    assert desk.refused(handler, lab.key, message("lab_nobody")) == wrong


def test_a_receipt_is_booked_once_however_it_is_sent(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    receipt = lab.receipt(device, device.grant())
    assert book(lab, receipt) == ReceiptBatchReply(booked=1, known=0)
    assert book(lab, receipt, receipt) == ReceiptBatchReply(booked=0, known=2)
    (credit,) = ledger.credits_by(desk.tx, "owner")
    assert (credit.subject, credit.units, credit.receipts) == ("ann", 2.5, 1)


def test_a_lease_is_booked_once_under_any_receipt(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    grant = device.grant()
    first = lab.receipt(device, grant)
    second = lab.receipt(device, grant, lease=first.lease)
    assert second.receipt != first.receipt
    assert book(lab, first, second) == ReceiptBatchReply(booked=1, known=1)


def test_what_is_not_booked(desk: Desk) -> None:
    lab, other, device = desk.lab("lab-a"), desk.lab("lab-b", wants=0), desk.device()
    stranger = desk.device("bob")
    grant = device.grant()
    good = lab.receipt(device, grant)

    def code(batch_lab: Lab, receipt: Receipt) -> str:
        reply = book(batch_lab, receipt)
        assert (reply.booked, reply.known) == (0, 0)
        (refusal,) = reply.refused
        assert refusal.receipt == receipt.receipt
        return refusal.code

    assert code(lab, lab.receipt(stranger, grant)) == "bad_signature"
    forged = lab.receipt(device, grant, device_signature=bytes(64))
    assert code(lab, forged) == "bad_signature"
    moved = lab.receipt(
        device,
        grant,
        device_signature=sign_claim(device.key, "lease_b", grant.jti),  # type: ignore[arg-type]
    )
    assert code(lab, moved) == "bad_signature"
    assert (
        code(lab, msgspec.structs.replace(good, receipt="receipt_b", grant="grant_b"))
        == "unknown_grant"
    )
    assert code(other, other.receipt(device, grant)) == "wrong_lab"
    assert code(lab, lab.receipt(device, grant, units=1.1e9)) == "over_quota"
    assert book(lab, good).booked == 1
    assert code(other, good) == "wrong_lab"
    assert ledger.audit_ledger(desk.tx) == []


def test_one_bad_receipt_spoils_no_other(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    grant = device.grant()
    batch = [lab.receipt(device, grant) for _ in range(5)]
    batch[2] = lab.receipt(device, grant, device_signature=bytes(64))
    reply = book(lab, *batch)
    assert (reply.booked, len(reply.refused)) == (4, 1)


def test_the_days_quota_of_a_lab() -> None:
    with memory() as tx:
        desk = Desk(tx, max_units_per_lab_day=10.0)
        lab, device = desk.lab(), desk.device()
        grant = device.grant()
        batch = [lab.receipt(device, grant) for _ in range(5)]
        reply = book(lab, *batch)
        assert (reply.booked, reply.refused[0].code) == (4, "over_quota")
        desk.now_s += 86_400
        assert book(lab, *batch) == ReceiptBatchReply(booked=1, known=4)


def test_work_that_was_verified_is_paid_even_after_a_revocation(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    receipt = lab.receipt(device, device.grant())
    revoke_device(desk.tx, desk.now_s, device.name)  # type: ignore[arg-type]
    desk.now_s += 3 * 86_400
    assert book(lab, receipt).booked == 1


def test_credits_by_owner_device_lab_and_day(desk: Desk) -> None:
    lab = desk.lab()
    ann, ann_two, bob = desk.device("ann"), desk.device("ann"), desk.device("bob")
    for device, units in ((ann, 1.0), (ann_two, 2.0), (bob, 4.0)):
        book(lab, lab.receipt(device, device.grant(), units=units))
    sums = {
        group: {credit.subject: credit.units for credit in ledger.credits_by(desk.tx, group)}
        for group in ("owner", "device", "lab", "day")
    }
    assert sums["owner"] == {"ann": 3.0, "bob": 4.0}
    assert sums["device"] == {ann.name: 1.0, ann_two.name: 2.0, bob.name: 4.0}
    assert sums["lab"] == {"lab-a": 7.0}
    assert sums["day"] == {str(ledger.day_of(desk.now_s)): 7.0}


def test_a_revoked_grant_is_listed_until_it_would_have_ended(desk: Desk) -> None:
    lab, other = desk.lab("lab-a"), desk.lab("lab-b", wants=0)
    device: Device = desk.device()
    grants = [device.grant(number) for number in range(3)]
    empty = listed(lab)
    assert (empty.number, empty.revoked) == (0, ())
    revoke_grant(desk.tx, desk.now_s, grants[0].jti)
    first = listed(lab)
    assert (first.number, first.revoked) == (1, (grants[0].jti,))
    revoke_grant(desk.tx, desk.now_s, grants[0].jti)
    assert listed(lab).number == 1, "revoking twice is one revocation"
    revoke_device(desk.tx, desk.now_s, device.name)  # type: ignore[arg-type]
    assert listed(lab).number == 3
    assert set(listed(lab).revoked) == {grant.jti for grant in grants}
    assert listed(other).revoked == ()
    desk.now_s += 3600
    assert (listed(lab).number, listed(lab).revoked) == (3, ())


def test_receipts_of_a_suspended_lab_wait(desk: Desk) -> None:
    lab = desk.lab()
    device = desk.device()
    batch = ReceiptBatch(lab.name, (lab.receipt(device, device.grant()),))
    desk.tx.execute("UPDATE lab SET suspended_s = ?", desk.now_s)
    assert desk.refused(node.receipts, lab.key, batch) == "coordinator_lab_suspended"
    assert desk.tx.rows("SELECT 1 FROM receipt") == []
    desk.tx.execute("UPDATE lab SET suspended_s = NULL")
    assert desk.ask(node.receipts, lab.key, batch, "192.0.2.1").booked == 1
