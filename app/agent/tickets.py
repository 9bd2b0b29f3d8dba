"""What the agent reads from tickets that it carries, without the issuers' keys.

Owns: whether a grant or a blob ticket is meant for this device, this lab and this grant. Must not:
take this for a proof: the lab node checks the signatures; here only waste and mix-ups are avoided.
"""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec

from app.agent.events import GrantNews
from gpugoblin.errors import AgentError
from gpugoblin.ids import GrantId, LabId
from gpugoblin.wire.messages.contact import Grant, GrantOffer
from gpugoblin.wire.messages.lease import Lease
from gpugoblin.wire.tickets import BlobTicket

__all__ = ["check_blob_ticket", "read_grant"]

C = TypeVar("C", bound=msgspec.Struct)


def read_grant(offer: GrantOffer, public_key: bytes, now_s: float) -> GrantNews:
    """What an offered grant gives. `now_s`: Unix seconds.

    Raises:
        AgentError: `grant_unusable`.
    """
    claims = _claims(offer.ticket, Grant)
    reason = ""
    if claims is None:
        reason = "its ticket is not of its declared form"
    elif claims.device_key != public_key.hex():
        reason = "it is for another device"
    elif claims.aud != offer.lab or claims.card != offer.card:
        reason = "its ticket is for another lab or card than it says"
    elif claims.exp <= now_s:
        reason = "it is over already; this machine's clock or the coordinator's is wrong"
    if claims is None or reason:
        raise AgentError("grant_unusable", reason=reason)
    return GrantNews(
        claims.jti, claims.aud, claims.card, float(claims.exp - now_s), claims.max_leases
    )


def check_blob_ticket(lease: Lease, grant: GrantId, lab: LabId, public_key: bytes) -> None:
    """Raises AgentError `lease_unusable` unless the lease's blob ticket is for this device."""
    claims = _claims(lease.blob_ticket, BlobTicket)
    if claims is None:
        raise AgentError("lease_unusable", reason="its blob ticket is not of its declared form")
    if claims.device_key != public_key.hex() or claims.grant != grant or claims.aud != lab:
        raise AgentError("lease_unusable", reason="its blob ticket is for somebody else")


def _claims(ticket: str, kind: type[C]) -> C | None:
    parts = ticket.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=kind)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        return None
