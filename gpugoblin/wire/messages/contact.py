"""Contacts and grants: device and coordinator; revocation and demand: lab node and coordinator.

Owns: the dialogue `contact.*`. Nothing here can say an operator, a shape, a hash of data or a
number of a computation: the coordinator knows devices, labs, hardware classes and credits.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import (
    Count,
    DeviceIdField,
    GrantIdField,
    Hex64,
    LabIdField,
    NumericClass,
    OwnerPseudonymField,
    PublicKey,
    SandboxLevel,
    Seconds,
    Ticket,
    UnixSeconds,
    Word,
)
from gpugoblin.wire.registry import message

__all__ = [
    "CardClass",
    "Contact",
    "ContactReply",
    "Demand",
    "DemandReply",
    "Grant",
    "GrantOffer",
    "Revocations",
]


CardNumber = Annotated[int, Meta(ge=0, le=63)]


class CardClass(Struct, frozen=True, forbid_unknown_fields=True):
    """One card that is lent: its kind and size, nothing that names the machine."""

    card: CardNumber
    kind: Literal["cpu", "vulkan", "cuda"]
    memory_bytes: Count
    classes: Annotated[tuple[NumericClass, ...], Meta(max_length=8)]
    sandbox_level: SandboxLevel
    engine_build: Word
    catalog_hash: Hex64


@message("contact", sender="device", receiver="coordinator", max_bytes=64 * 1024)
class Contact(Struct, frozen=True, forbid_unknown_fields=True):
    """I am here, with these cards; I hold these grants; give me more for the idle ones."""

    cards: Annotated[tuple[CardClass, ...], Meta(max_length=64)]
    holding: Annotated[tuple[GrantIdField, ...], Meta(max_length=64)] = ()
    wants: Annotated[tuple[CardNumber, ...], Meta(max_length=64)] = ()


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """The claims of a grant ticket: this card may work for that lab node until `exp`.

    The lab reads from it which owners are independent without knowing who they are.
    """

    jti: GrantIdField
    aud: LabIdField
    exp: UnixSeconds
    iat: UnixSeconds
    device_key: Hex64
    card: CardNumber
    owner_pseudonym: OwnerPseudonymField
    owner_age_days: Annotated[int, Meta(ge=0, le=40_000)]
    network_bucket: Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    card_class: Literal["cpu", "vulkan", "cuda"]
    engine_build: Word
    catalog_hash: Hex64
    max_leases: Annotated[int, Meta(ge=1, le=64)]


class GrantOffer(Struct, frozen=True, forbid_unknown_fields=True):
    """A grant as a signed ticket, where the lab node is, and what the lab says of itself in public:
    the name and the words of the coordinator's page Labs."""

    ticket: Ticket
    lab: LabIdField
    card: CardNumber
    address: Annotated[str, Meta(max_length=200, pattern=r"\Ahttps?://[A-Za-z0-9.:\[\]-]+\Z")]
    certificate_sha256: Hex64 | None = None
    lab_name: Word | None = None
    lab_words: Annotated[str, Meta(max_length=1000)] = ""


@message("contact_reply", sender="coordinator", receiver="device", max_bytes=1024 * 1024)
class ContactReply(Struct, frozen=True, forbid_unknown_fields=True):
    """New grants, grants that are revoked, and when to come again."""

    device: DeviceIdField
    grants: Annotated[tuple[GrantOffer, ...], Meta(max_length=64)]
    revoked: Annotated[tuple[GrantIdField, ...], Meta(max_length=1024)]
    next_contact_s: Seconds


@message("node.demand", sender="node", receiver="coordinator", max_bytes=4096)
class Demand(Struct, frozen=True, forbid_unknown_fields=True):
    """How many cards the lab could use now. Signed by the lab node's key."""

    lab: LabIdField
    cards_wanted: Annotated[int, Meta(ge=0, le=1_000_000)]
    min_memory_bytes: Count = 0


@message("node.demand_reply", sender="coordinator", receiver="node", max_bytes=4096)
class DemandReply(Struct, frozen=True, forbid_unknown_fields=True):
    """The coordinator's ticket key, and when to poll revocations again."""

    coordinator_key: PublicKey
    next_poll_s: Seconds


@message("node.revocations", sender="coordinator", receiver="node", max_bytes=4 * 1024 * 1024)
class Revocations(Struct, frozen=True, forbid_unknown_fields=True):
    """A ticket over the sorted list of revoked grants, numbered upwards."""

    number: Count
    issued_s: Seconds
    ticket: Annotated[str, Meta(max_length=4 * 1024 * 1024, pattern=r"\A[A-Za-z0-9_.-]+\Z")]
