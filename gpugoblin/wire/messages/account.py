"""What a device may know of the account that it belongs to: device and coordinator.

Owns: the dialogue `account.*`. It is asked for when the owner looks, and by nothing else. Nothing
in it names the owner.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import Seconds
from gpugoblin.wire.registry import message

__all__ = ["AccountMachine", "Machines", "MachinesReply"]


@message("account.machines", sender="device", receiver="coordinator", max_bytes=4096)
class Machines(Struct, frozen=True, forbid_unknown_fields=True):
    """Which machines belong to my account? Signed by the key of one of them."""


class AccountMachine(Struct, frozen=True, forbid_unknown_fields=True):
    """One machine. `cards` counts those that work for a lab now; `credits` are of all its work."""

    fingerprint: Annotated[str, Meta(pattern=r"\A[0-9a-f]{4}(-[0-9a-f]{4}){3}\Z")]
    created_s: Seconds
    seen_s: Seconds | None
    is_revoked: bool
    cards: Annotated[int, Meta(ge=0, le=1024)]
    credits: Annotated[float, Meta(ge=0, le=1e18)]


@message("account.machines_reply", sender="coordinator", receiver="device", max_bytes=128 * 1024)
class MachinesReply(Struct, frozen=True, forbid_unknown_fields=True):
    """The latest first, those that were ended last."""

    machines: Annotated[tuple[AccountMachine, ...], Meta(max_length=200)]
