"""What news from a lab node mean: leases, exchanges, blobs, uploads.

Owns: their handlers. Must not: do I/O; plan what comes next; trust that a lab answers what it was
asked.
"""

from __future__ import annotations

from app.agent.events import (
    BlobFailed,
    BlobReady,
    ExchangeDone,
    ExchangeFailed,
    LeaseCancelled,
    LeaseOffered,
    LeaseRefused,
    LeaseUnusable,
    UploadDone,
    UploadFailed,
    UploadsAwaited,
)
from app.agent.instructions import RememberLease
from app.agent.model import GrantState, LeaseState, Model
from app.agent.transitions import Output, drop_grant, drop_lease, give_back, lab_at_fault
from gpugoblin.ids import GrantId

__all__ = [
    "blob_failed",
    "blob_ready",
    "exchange_done",
    "exchange_failed",
    "lease_cancelled",
    "lease_offered",
    "lease_refused",
    "lease_unusable",
    "upload_done",
    "upload_failed",
    "uploads_awaited",
]


def lease_offered(model: Model, event: LeaseOffered, output: Output) -> None:
    grant = model.grants.get(event.grant)
    if grant is None or event.lease in model.leases:
        return
    model.leases_seen += 1
    grant.offered += 1
    lease = LeaseState(
        event.lease,
        event.grant,
        grant.card,
        model.leases_seen,
        model.now_s + event.remaining_s,
        event.inputs,
        event.output_bytes,
        missing={each.blob for each in event.inputs},
    )
    lease.stage = "fetching" if lease.missing else "ready"
    model.leases[event.lease] = lease
    output.add(RememberLease(grant=event.grant, lease=event.lease))
    if grant.offered > grant.wanted:  # a lab that sends more than was asked for
        give_back(lease, "owner", output)


def lease_unusable(model: Model, event: LeaseUnusable, output: Output) -> None:
    offered = LeaseOffered(
        grant=event.grant, lease=event.lease, remaining_s=0.0, inputs=(), output_bytes=0
    )
    lease_offered(model, offered, output)
    lease = model.leases.get(event.lease)
    if lease is not None and lease.stage == "ready":
        give_back(lease, "inputs_missing", output, code=event.code)
        lab_at_fault(model, event.grant, event.code, output)


def lease_cancelled(model: Model, event: LeaseCancelled, output: Output) -> None:
    drop_lease(model, event.lease, output)


def lease_refused(model: Model, event: LeaseRefused, output: Output) -> None:
    lease = model.leases.get(event.lease)
    if lease is not None:
        if lease.stage in ("computed", "committing"):
            output.say("result_refused", code=event.code)
        drop_lease(model, event.lease, output)


def uploads_awaited(model: Model, event: UploadsAwaited, output: Output) -> None:
    for name in event.leases:
        lease = model.leases.get(name)
        if lease is not None and lease.stage in ("committing", "committed"):
            lease.stage = "uploading"


def _settled(model: Model, event: ExchangeDone | ExchangeFailed) -> GrantState | None:
    grant = model.grants.get(event.grant)
    if grant is None:
        return None
    grant.heard_at_s = model.now_s
    if grant.asking == event.exchange:
        grant.asking = 0
    if grant.telling == event.exchange:
        grant.telling = 0
    return grant


def _in_exchange(model: Model, grant: GrantState, exchange: int) -> list[LeaseState]:
    return [
        lease
        for lease in model.of_grant(grant.grant)
        if lease.exchange == exchange and lease.stage in ("committing", "abandoning")
    ]


def exchange_done(model: Model, event: ExchangeDone, output: Output) -> None:
    grant = _settled(model, event)
    if grant is None:
        return
    if grant.introducing == event.exchange:
        grant.is_introduced = True
    for lease in _in_exchange(model, grant, event.exchange):
        if lease.stage == "committing":
            lease.stage = "committed"
        else:
            drop_lease(model, lease.lease, output)
    is_empty = grant.offered == 0
    if grant.wanting == event.exchange:
        grant.empty_asks = grant.empty_asks + 1 if is_empty else 0
        grant.offered = grant.wanted = grant.wanting = 0
    least_s = model.limits.poll_s if is_empty else 0.0
    grant.ask_at_s = model.now_s + max(event.wait_s, least_s)


def exchange_failed(model: Model, event: ExchangeFailed, output: Output) -> None:
    grant = _settled(model, event)
    if grant is None:
        return
    for lease in _in_exchange(model, grant, event.exchange):
        lease.stage = "computed" if lease.stage == "committing" else "giving_back"
    if grant.wanting == event.exchange:
        grant.offered = grant.wanted = grant.wanting = 0
    grant.ask_at_s = grant.tell_at_s = model.now_s + event.retry_s
    if event.is_final:
        drop_grant(model, event.grant, event.code, output)
    elif model.is_ending:
        _leave_for_next_start(model, grant.grant)
    else:
        output.say("lab_away", code=event.code, retry_s=round(event.retry_s))


def _leave_for_next_start(model: Model, grant: GrantId) -> None:
    # Not forgotten: the journal keeps them and the next start gives them back.
    for lease in model.of_grant(grant):
        del model.leases[lease.lease]


def blob_ready(model: Model, event: BlobReady, output: Output) -> None:
    grant = model.grants.get(event.grant)
    if grant is None:
        return
    grant.fetching.discard(event.blob)
    grant.fetch_tries.pop(event.blob, None)
    grant.fetch_at_s.pop(event.blob, None)
    for lease in model.of_grant(event.grant):
        lease.missing.discard(event.blob)
        if lease.stage == "fetching" and not lease.missing:
            lease.stage = "ready"


def blob_failed(model: Model, event: BlobFailed, output: Output) -> None:
    grant = model.grants.get(event.grant)
    if grant is None:
        return
    grant.fetching.discard(event.blob)
    tries = grant.fetch_tries.get(event.blob, 0) + 1
    grant.fetch_tries[event.blob] = tries
    grant.fetch_at_s[event.blob] = model.now_s + event.retry_s
    if not event.is_final and tries < model.limits.fetch_attempts:
        return
    grant.fetch_tries.pop(event.blob)
    grant.fetch_at_s.pop(event.blob)
    for lease in model.of_grant(event.grant):
        if lease.stage == "fetching" and event.blob in lease.missing:
            give_back(lease, "inputs_missing", output, code=event.code)
    if event.is_lie:
        lab_at_fault(model, event.grant, event.code, output)


def upload_done(model: Model, event: UploadDone, output: Output) -> None:
    lease = model.leases.get(event.lease)
    if lease is not None and lease.stage == "uploading":
        output.say("result_sent" if event.state == "checking" else f"result_{event.state}")
        drop_lease(model, event.lease, output)


def upload_failed(model: Model, event: UploadFailed, output: Output) -> None:
    lease = model.leases.get(event.lease)
    if lease is None or lease.stage != "uploading":
        return
    lease.is_moving = False
    lease.retry_at_s = model.now_s + event.retry_s
    if event.is_final:
        output.say("result_refused", code=event.code)
        drop_lease(model, event.lease, output)
