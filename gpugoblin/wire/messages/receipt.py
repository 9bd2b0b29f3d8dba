"""Receipts: verified work, told to the coordinator by the lab node.

Owns: the dialogue `receipt.*`. A receipt names a lease that the device signed and that the node
verified; units are verified work, never claimed time.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import (
    GrantIdField,
    LabIdField,
    LeaseIdField,
    ReceiptIdField,
    Seconds,
    Signature,
)
from gpugoblin.wire.registry import message

__all__ = ["Receipt", "ReceiptBatch", "ReceiptBatchReply", "ReceiptRefusal"]


class Receipt(Struct, frozen=True, forbid_unknown_fields=True):
    """`units` for one verified lease. `receipt` is made by the node once and is idempotent.

    `device_signature` is the device's Ed25519 signature over the claim of lease and grant (see
    `wire.signing`), sent with the result: neither side can invent a receipt alone.
    """

    receipt: ReceiptIdField
    grant: GrantIdField
    lease: LeaseIdField
    device_signature: Signature
    units: Annotated[float, Meta(gt=0, le=1e12)]
    verified_s: Seconds


@message("receipt.batch", sender="node", receiver="coordinator", max_bytes=1024 * 1024)
class ReceiptBatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Signed by the lab node's key. Sending a batch twice changes nothing."""

    lab: LabIdField
    receipts: Annotated[tuple[Receipt, ...], Meta(min_length=1, max_length=1000)]


class ReceiptRefusal(Struct, frozen=True, forbid_unknown_fields=True):
    """A receipt that was not booked, and why."""

    receipt: ReceiptIdField
    code: Literal["unknown_grant", "wrong_lab", "bad_signature", "over_quota"]


@message("receipt.batch_reply", sender="coordinator", receiver="node", max_bytes=256 * 1024)
class ReceiptBatchReply(Struct, frozen=True, forbid_unknown_fields=True):
    """`booked` counts new entries, `known` those that were booked before."""

    booked: Annotated[int, Meta(ge=0)]
    known: Annotated[int, Meta(ge=0)]
    refused: Annotated[tuple[ReceiptRefusal, ...], Meta(max_length=1000)] = ()
