"""Typed identifiers. Owns the names of all id kinds and the making of fresh ones.

Every fresh id is a prefix and 128 random bits in lower-case base32: it carries no name, time,
shape or count. Ids of content (`BlobHash`, `GraphHash`) are 64 hexadecimal digits of BLAKE3-256.
"""

from __future__ import annotations

from typing import NewType

__all__ = [
    "AccountId",
    "ArrayId",
    "AskId",
    "BlobHash",
    "DeviceId",
    "EnrolmentId",
    "GrantId",
    "GraphHash",
    "JobId",
    "LabId",
    "LeaseId",
    "OwnerPseudonym",
    "ReceiptId",
    "TaskId",
    "UploadId",
    "UserId",
    "fresh_id",
]

AccountId = NewType("AccountId", str)
ArrayId = NewType("ArrayId", str)
AskId = NewType("AskId", str)
BlobHash = NewType("BlobHash", str)
DeviceId = NewType("DeviceId", str)
EnrolmentId = NewType("EnrolmentId", str)
GrantId = NewType("GrantId", str)
GraphHash = NewType("GraphHash", str)
JobId = NewType("JobId", str)
LabId = NewType("LabId", str)
LeaseId = NewType("LeaseId", str)
OwnerPseudonym = NewType("OwnerPseudonym", str)
ReceiptId = NewType("ReceiptId", str)
TaskId = NewType("TaskId", str)
UploadId = NewType("UploadId", str)
UserId = NewType("UserId", str)


def fresh_id(prefix: str) -> str:
    """A new random id such as `task_mfrggzdfmztwq2lknnwg23tpoa` (128 random bits)."""
    # Here, because `secrets` loads OpenSSL, which an engine must not and an import need not.
    import base64
    import secrets

    digits = base64.b32encode(secrets.token_bytes(16)).decode("ascii").rstrip("=").lower()
    return f"{prefix}_{digits}"
