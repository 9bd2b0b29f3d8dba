"""What lab nodes say and ask: demand, receipts, revocations.

Owns: the booking of receipts, each once, and the lab's signed list of revoked grants.
"""

from __future__ import annotations

import random
from typing import Literal, NamedTuple

from gpugoblin.errors import CoordinatorError, WireError
from gpugoblin.ids import GrantId, LabId
from gpugoblin.wire.messages.contact import Demand, DemandReply, Revocations
from gpugoblin.wire.messages.probe import Probe
from gpugoblin.wire.messages.receipt import (
    Receipt,
    ReceiptBatch,
    ReceiptBatchReply,
    ReceiptRefusal,
)
from gpugoblin.wire.signing import verify_claim
from gpugoblin.wire.tickets import RevocationList, sign_revocations
from server_stub.coordinator.handlers.common import lab_of, number
from server_stub.coordinator.house import Caller, House, draw_id
from server_stub.coordinator.ledger import MICRO, book, booked_on_day, day_of, to_micro
from server_stub.coordinator.store import Transaction

__all__ = ["Registered", "demand", "receipts", "registered", "revocations"]

_Verdict = Literal["booked", "known", "unknown_grant", "wrong_lab", "bad_signature", "over_quota"]


class Registered(NamedTuple):
    """What the operator has registered of a lab."""

    lab: LabId
    address: str
    certificate_sha256: str | None


def registered(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: Probe,
) -> Registered:
    """The lab whose node's key signed the request.

    Raises:
        CoordinatorError: `coordinator_lab_unknown`.
    """
    row = tx.row(
        "SELECT lab, address, certificate_sha256 FROM lab WHERE public_key = ?", caller.public_key
    )
    if row is None:
        raise CoordinatorError("coordinator_lab_unknown")
    return Registered(LabId(row[0]), row[1], row[2])


def demand(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: Demand,
) -> DemandReply:
    """Notes how many cards the lab could use.

    Raises:
        CoordinatorError: `coordinator_lab_unknown`.
    """
    lab = lab_of(tx, caller, message.lab)
    tx.execute(
        "UPDATE lab SET cards_wanted = ?, min_memory_bytes = ?, demand_s = ? WHERE lab = ?",
        message.cards_wanted, message.min_memory_bytes, now_s, lab,
    )  # fmt: skip
    return DemandReply(coordinator_key=house.public_key, next_poll_s=house.settings.poll_s)


def revocations(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: LabId,
) -> Revocations:
    """The lab's revoked grants that would otherwise still be valid, signed and numbered.

    The number counts all revocations there ever were, so it never goes back.

    Raises:
        CoordinatorError: `coordinator_lab_unknown`.
    """
    lab = lab_of(tx, caller, message)
    revoked = tx.rows(
        "SELECT card_grant FROM card_grant"
        " WHERE lab = ? AND expires_s > ? AND revoked_s IS NOT NULL ORDER BY card_grant",
        lab, now_s,
    )  # fmt: skip
    counted = number(tx, "SELECT value FROM counter WHERE name = 'revocation'")
    issued_s = int(now_s)
    signed = RevocationList(
        jti=draw_id("revs", rng),
        aud=LabId(lab),
        iat=issued_s,
        exp=issued_s + max(600, int(10 * house.settings.poll_s)),
        number=counted,
        revoked=tuple(GrantId(row[0]) for row in revoked),
    )
    return Revocations(
        number=counted,
        issued_s=float(issued_s),
        ticket=sign_revocations(house.ticket_key, signed),
    )


def receipts(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: ReceiptBatch,
) -> ReceiptBatchReply:
    """Books verified work: a receipt once, a lease once, only with the device's own signature.

    Raises:
        CoordinatorError: `coordinator_lab_unknown`, `coordinator_lab_suspended`: its node keeps the
            receipts and brings them again, so a lab that is resumed owes nobody anything.
    """
    lab = lab_of(tx, caller, message.lab)
    if tx.row("SELECT 1 FROM lab WHERE lab = ? AND suspended_s IS NOT NULL", lab) is not None:
        raise CoordinatorError("coordinator_lab_suspended")
    booked, known = 0, 0
    refused: list[ReceiptRefusal] = []
    for receipt in message.receipts:
        verdict = _book(house, tx, now_s, lab, receipt)
        if verdict == "booked":
            booked += 1
        elif verdict == "known":
            known += 1
        else:
            refused.append(ReceiptRefusal(receipt=receipt.receipt, code=verdict))
    return ReceiptBatchReply(booked=booked, known=known, refused=tuple(refused))


def _book(house: House, tx: Transaction, now_s: float, lab: str, receipt: Receipt) -> _Verdict:
    before = tx.row("SELECT lab FROM receipt WHERE receipt = ?", receipt.receipt)
    if before is not None:
        return "known" if before[0] == lab else "wrong_lab"
    grant = tx.row(
        "SELECT card_grant.lab, device.device, device.account, device.public_key FROM card_grant"
        " JOIN device ON device.device = card_grant.device WHERE card_grant = ?",
        receipt.grant,
    )
    if grant is None:
        return "unknown_grant"
    granted_lab, device, account, public_key = grant
    if granted_lab != lab:
        return "wrong_lab"
    try:
        verify_claim(public_key, receipt.lease, receipt.grant, receipt.device_signature)
    except WireError:
        return "bad_signature"
    lease = tx.row("SELECT 1 FROM receipt WHERE lab = ? AND lease = ?", lab, receipt.lease)
    if lease is not None:
        return "known"
    return _enter(house, tx, now_s, receipt, (lab, device, account))


def _enter(
    house: House,
    tx: Transaction,
    now_s: float,
    receipt: Receipt,
    parties: tuple[str, str, str],
) -> _Verdict:
    lab, device, account = parties
    settings = house.settings
    micro_units = to_micro(receipt.units)
    day = day_of(now_s)
    today = booked_on_day(tx, lab, day) + micro_units
    if receipt.units > settings.max_units_per_receipt:
        return "over_quota"
    if today > settings.max_units_per_lab_day * MICRO:
        return "over_quota"
    try:
        with tx.nested():
            tx.execute(
                "INSERT INTO receipt (receipt, card_grant, lab, lease, verified_s, booked_s)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                receipt.receipt, receipt.grant, lab, receipt.lease, receipt.verified_s, now_s,
            )  # fmt: skip
            if not book(
                tx,
                receipt=receipt.receipt,
                account=account,
                device=device,
                lab=lab,
                day=day,
                micro_units=micro_units,
            ):
                raise _OverflowRefusedError
    except _OverflowRefusedError:
        return "over_quota"
    return "booked"


class _OverflowRefusedError(Exception):
    """A balance would leave the whole numbers that the database can hold; undoes the receipt."""
