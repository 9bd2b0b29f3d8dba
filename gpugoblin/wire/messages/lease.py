"""Leases: device and lab node. One request commits results, gives work back and takes more.

Owns: the dialogue `lease.*`. The order is *commit, draw, upload*: `Exchange.commits` names the
hashes, the node draws its secrets and answers `uploads`, and only then do the bytes travel
(`PUT /v1/results/{lease}/{slot}`), closed by `Uploaded`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import LeaseIdField, Seconds, Ticket, Word
from gpugoblin.wire.messages.task import Capabilities, Result, Task
from gpugoblin.wire.registry import message

__all__ = ["Abandon", "Exchange", "ExchangeReply", "Lease", "Refusal", "Uploaded", "UploadedReply"]


class Abandon(Struct, frozen=True, forbid_unknown_fields=True):
    """A lease given back, free of blame."""

    lease: LeaseIdField
    reason: Literal["owner", "does_not_fit", "engine_failed", "inputs_missing", "shutdown"]


@message("lease.exchange", sender="device", receiver="node", max_bytes=256 * 1024)
class Exchange(Struct, frozen=True, forbid_unknown_fields=True):
    """Commit results, abandon leases, ask for `want` more. `capabilities` in the first one.

    `holding` is every other lease that the device has: one that it does not name never reached it.
    """

    commits: Annotated[tuple[Result, ...], Meta(max_length=64)] = ()
    abandons: Annotated[tuple[Abandon, ...], Meta(max_length=64)] = ()
    holding: Annotated[tuple[LeaseIdField, ...], Meta(max_length=64)] = ()
    want: Annotated[int, Meta(ge=0, le=64)] = 0
    capabilities: Capabilities | None = None


class Lease(Struct, frozen=True, forbid_unknown_fields=True):
    """This card computes this task until `until_s` (Unix seconds); the ticket opens its blobs."""

    lease: LeaseIdField
    until_s: Seconds
    task: Task
    blob_ticket: Ticket


class Refusal(Struct, frozen=True, forbid_unknown_fields=True):
    """A commit or an abandon that changed nothing, and why."""

    lease: LeaseIdField
    code: Word


@message("lease.exchange_reply", sender="node", receiver="device", max_bytes=32 * 1024 * 1024)
class ExchangeReply(Struct, frozen=True, forbid_unknown_fields=True):
    """`uploads`: leases whose bytes are awaited now. `cancelled`: stop computing these."""

    leases: Annotated[tuple[Lease, ...], Meta(max_length=64)] = ()
    uploads: Annotated[tuple[LeaseIdField, ...], Meta(max_length=64)] = ()
    cancelled: Annotated[tuple[LeaseIdField, ...], Meta(max_length=64)] = ()
    refused: Annotated[tuple[Refusal, ...], Meta(max_length=128)] = ()
    wait_s: Seconds = 0.0


@message("lease.uploaded", sender="device", receiver="node", max_bytes=4096)
class Uploaded(Struct, frozen=True, forbid_unknown_fields=True):
    """All outputs of the lease are on the node; it may check them."""

    lease: LeaseIdField


@message("lease.uploaded_reply", sender="node", receiver="device", max_bytes=4096)
class UploadedReply(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of it. `missing`: output slots whose bytes are not all there."""

    state: Literal["checking", "late", "cancelled", "missing"]
    missing: Annotated[tuple[int, ...], Meta(max_length=256)] = ()
