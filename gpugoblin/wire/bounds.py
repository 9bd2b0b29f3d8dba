"""Bounded field types of the messages. Decoding a message is validating it.

Owns: the annotated types. No type toward devices admits free text: ids, hashes, closed words and
numbers only.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gpugoblin.ids import (
    AccountId,
    ArrayId,
    AskId,
    BlobHash,
    DeviceId,
    EnrolmentId,
    GrantId,
    GraphHash,
    JobId,
    LabId,
    LeaseId,
    OwnerPseudonym,
    ReceiptId,
    TaskId,
    UserId,
)

__all__ = [
    "AccountIdField",
    "ArrayIdField",
    "AskIdField",
    "Assurance",
    "BlobHashField",
    "Bytes64K",
    "Coding",
    "Count",
    "DeadlineClass",
    "DeviceIdField",
    "Dim",
    "Dtype",
    "DtypeNames",
    "EnrolmentIdField",
    "GrantIdField",
    "GraphBytes",
    "GraphHashField",
    "Hex64",
    "JobIdField",
    "LabIdField",
    "LeaseIdField",
    "NumericClass",
    "OwnerPseudonymField",
    "PublicKey",
    "ReceiptIdField",
    "SandboxLevel",
    "Seconds",
    "Shape",
    "Signature",
    "TaskIdField",
    "Ticket",
    "TicketIdField",
    "UnixSeconds",
    "UserIdField",
    "VerifyMethodField",
    "Version",
    "Word",
]

_ID = Meta(min_length=4, max_length=40, pattern=r"\A[a-z]{1,12}_[a-z2-7]{1,26}\Z")
_HEX64 = Meta(min_length=64, max_length=64, pattern=r"\A[0-9a-f]{64}\Z")

AccountIdField = Annotated[AccountId, _ID]
ArrayIdField = Annotated[ArrayId, _ID]
AskIdField = Annotated[AskId, _ID]
DeviceIdField = Annotated[DeviceId, _ID]
EnrolmentIdField = Annotated[EnrolmentId, _ID]
GrantIdField = Annotated[GrantId, _ID]
JobIdField = Annotated[JobId, _ID]
LabIdField = Annotated[LabId, _ID]
LeaseIdField = Annotated[LeaseId, _ID]
OwnerPseudonymField = Annotated[OwnerPseudonym, _ID]
ReceiptIdField = Annotated[ReceiptId, _ID]
TaskIdField = Annotated[TaskId, _ID]
TicketIdField = Annotated[str, _ID]
UserIdField = Annotated[UserId, _ID]

BlobHashField = Annotated[BlobHash, _HEX64]
GraphHashField = Annotated[GraphHash, _HEX64]
Hex64 = Annotated[str, _HEX64]

Count = Annotated[int, Meta(ge=0, le=2**62)]
Dim = Annotated[int, Meta(ge=0, le=2**40)]
Shape = Annotated[tuple[Dim, ...], Meta(max_length=8)]
Version = Annotated[int, Meta(ge=0, le=2**31 - 1)]
UnixSeconds = Annotated[int, Meta(ge=0, le=2**36)]
"""Whole seconds since 1970, as tickets count time (RFC 7519, NumericDate); until the year 4147."""
Seconds = Annotated[float, Meta(ge=0, le=1e11)]
Word = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9_.@+:-]+\Z")]
"""A closed word: a version, driver or build name. No spaces, so no sentence fits."""

GraphBytes = Annotated[bytes, Meta(max_length=1024 * 1024)]
Bytes64K = Annotated[bytes, Meta(max_length=64 * 1024)]
PublicKey = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]
Ticket = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"\A[A-Za-z0-9_.-]+\Z")]

Dtype = Literal[
    "float32", "int32", "int64", "bool", "int8", "int16", "uint8", "float16", "bfloat16", "float64"
]
DtypeNames = Annotated[tuple[Dtype, ...], Meta(max_length=16)]
Coding = Literal["raw"]
NumericClass = Literal["exact", "float32", "tf32", "bfloat16", "float16", "int8"]
Assurance = Literal["full", "audited"]
VerifyMethodField = Literal["product", "recompute", "equality", "agreement"]
SandboxLevel = Literal["full", "reduced", "none"]
DeadlineClass = Literal["interactive", "normal", "patient"]
