"""What a lab's answer to an exchange means: leases that make sense, leases that do not, the rest.

Owns: the checks of a lease before anything is done for it. Must not: do I/O; trust a field.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from app.agent.events import (
    Event,
    LeaseCancelled,
    LeaseInput,
    LeaseOffered,
    LeaseRefused,
    LeaseUnusable,
    UploadsAwaited,
)
from app.agent.outputs import output_bytes
from app.agent.tickets import check_blob_ticket
from gpugoblin.errors import AgentError
from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId
from gpugoblin.wire.messages.lease import ExchangeReply, Lease
from gpugoblin.wire.messages.task import Task

__all__ = ["HeldLease", "read_lease", "read_reply"]

MAX_REMAINING_S = 86_400.0
"""No lease is longer than a day (the lab's own cap)."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease that is held: what the wire said, and what follows from it."""

    lease: Lease
    grant: GrantId
    lab: LabId
    blobs: dict[BlobHash, int]

    @property
    def task(self) -> Task:
        return self.lease.task


def read_reply(
    reply: ExchangeReply, grant: GrantId, lab: LabId, public_key: bytes, now_s: float
) -> tuple[list[Event], dict[LeaseId, HeldLease]]:
    """The events of an answer, in the order in which the machine wants them.

    Args:
        now_s: Unix seconds, against which the leases' ends are taken.
    """
    news: list[Event] = []
    held: dict[LeaseId, HeldLease] = {}
    for lease in reply.leases:
        try:
            each = read_lease(lease, grant, lab, public_key)
        except AgentError as error:
            news.append(LeaseUnusable(grant=grant, lease=lease.lease, code=error.code))
            continue
        held[lease.lease] = each
        news.append(
            LeaseOffered(
                grant=grant,
                lease=lease.lease,
                remaining_s=min(MAX_REMAINING_S, lease.until_s - now_s),
                inputs=tuple(LeaseInput(blob, nbytes) for blob, nbytes in each.blobs.items()),
                output_bytes=sum(output_bytes(lease.task)),
            )
        )
    if reply.uploads:
        news.append(UploadsAwaited(leases=reply.uploads))
    news += [LeaseCancelled(lease=lease) for lease in reply.cancelled]
    news += [LeaseRefused(lease=each.lease, code=each.code) for each in reply.refused]
    return news, held


def read_lease(lease: Lease, grant: GrantId, lab: LabId, public_key: bytes) -> HeldLease:
    """A lease with its inputs and outputs in the order of their slots.

    Raises:
        AgentError: `lease_unusable`.
    """
    task = lease.task
    if task.inputs:
        check_blob_ticket(lease, grant, lab, public_key)
    for kind, found in (("input", task.inputs), ("output", task.outputs)):
        if sorted(each.slot for each in found) != list(range(len(found))):
            raise AgentError("lease_unusable", reason=f"its {kind} slots are not 0, 1, 2 ...")
    blobs: dict[BlobHash, int] = {}
    for each in task.inputs:
        if blobs.setdefault(each.blob, each.nbytes) != each.nbytes:
            raise AgentError("lease_unusable", reason="it gives one blob two sizes")
    if sum(output_bytes(task)) > 2**62:
        raise AgentError("lease_unusable", reason="its outputs are larger than any memory")
    in_order = msgspec.structs.replace(
        task,
        inputs=tuple(sorted(task.inputs, key=lambda each: each.slot)),
        outputs=tuple(sorted(task.outputs, key=lambda each: each.slot)),
    )
    return replace(
        HeldLease(lease, grant, lab, blobs),
        lease=msgspec.structs.replace(lease, task=in_order),
    )
