"""Tickets: short-lived signed statements that their holder carries to a third party.

Owns: the three kinds (grants, blob tickets, revocation lists), their claims, their signing and
their checking. Must not: read a clock or a database; time, keys and audience are passed in.

A ticket is a JWT (RFC 7519) with the algorithm pinned to EdDSA (RFC 8037), a `typ` per kind
(RFC 8725, section 3.11) and a `kid` that picks among the issuer's keys. The claims are a Struct:
what it does not declare is refused, and so is a header member beyond `alg`, `typ` and `kid`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar, cast

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from msgspec import Meta, Struct

from gpugoblin.errors import WireError
from gpugoblin.ids import LabId
from gpugoblin.wire.bounds import (
    Count,
    GrantIdField,
    Hex64,
    LabIdField,
    TicketIdField,
    UnixSeconds,
)
from gpugoblin.wire.messages.contact import Grant
from gpugoblin.wire.signing import WINDOW_S, public_key_bytes, utc

__all__ = [
    "BLOB",
    "GRANT",
    "MAX_GRANT_S",
    "REVOCATIONS",
    "BlobTicket",
    "RevocationList",
    "TicketCache",
    "TicketKind",
    "key_id",
    "sign",
    "sign_blob_ticket",
    "sign_grant",
    "sign_revocations",
    "verify",
    "verify_blob_ticket",
    "verify_grant",
    "verify_revocations",
]

MAX_GRANT_S: Final = 3600
"""A grant lasts an hour at most, so a stolen one is worth little."""

_ALGORITHM: Final = "EdDSA"
_MAX_HEADER_CHARACTERS: Final = 256


class _Claims(Protocol):
    """What every kind of ticket declares."""

    @property
    def aud(self) -> LabId: ...
    @property
    def exp(self) -> int: ...
    @property
    def iat(self) -> int: ...
    @property
    def jti(self) -> str: ...


class BlobTicket(Struct, frozen=True, forbid_unknown_fields=True):
    """This device may read the inputs of its leases under this grant from that lab until `exp`.

    `peers` names the keys of devices that hold the same blobs; it is empty until peers exist.
    """

    jti: TicketIdField
    aud: LabIdField
    exp: UnixSeconds
    iat: UnixSeconds
    device_key: Hex64
    grant: GrantIdField
    peers: Annotated[tuple[Hex64, ...], Meta(max_length=64)] = ()


class RevocationList(Struct, frozen=True, forbid_unknown_fields=True):
    """All grants for one lab that are revoked and would otherwise still be valid, sorted."""

    jti: TicketIdField
    aud: LabIdField
    exp: UnixSeconds
    iat: UnixSeconds
    number: Count
    revoked: Annotated[tuple[GrantIdField, ...], Meta(max_length=60_000)]


C = TypeVar("C", bound=_Claims)


@dataclass(frozen=True, slots=True)
class TicketKind(Generic[C]):
    """One kind of ticket: its word in errors, its `typ`, its claims and its bounds."""

    word: str
    typ: str
    claims: type[C]
    max_characters: int
    max_lifetime_s: int


GRANT: Final = TicketKind("grant", "goblin-grant+jwt", Grant, 4096, MAX_GRANT_S)
BLOB: Final = TicketKind("blob", "goblin-blob+jwt", BlobTicket, 4096, 24 * 3600)
REVOCATIONS: Final = TicketKind(
    "revocation", "goblin-revocations+jwt", RevocationList, 4 * 1024 * 1024, 24 * 3600
)


def key_id(public_key: bytes) -> str:
    """The `kid` of a public key: its first 16 hexadecimal digits."""
    return public_key.hex()[:16]


def sign(kind: TicketKind[C], private_key: Ed25519PrivateKey, claims: C) -> str:
    """A ticket with these claims.

    Raises:
        WireError: `ticket_malformed` or `ticket_too_long`: `verify` would refuse these claims.
            `ticket_too_large`: so is their encoding.
    """
    _convert(kind, msgspec.to_builtins(claims))
    _check_lifetime(kind, claims)
    # What the library writes, byte by byte, at a third of its cost: each contact signs one.
    head = _head(kind.typ, key_id(public_key_bytes(private_key)))
    signed = f"{head}.{_base64(msgspec.json.encode(claims))}"
    ticket = f"{signed}.{_base64(private_key.sign(signed.encode('ascii')))}"
    _check_size(kind, ticket)
    return ticket


@lru_cache(maxsize=64)
def _head(typ: str, kid: str) -> str:
    return _base64(msgspec.json.encode({"alg": _ALGORITHM, "kid": kid, "typ": typ}))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def verify(
    kind: TicketKind[C],
    ticket: str,
    *,
    keys: Sequence[bytes],
    audience: LabId,
    now_s: float,
    device_key: bytes | None = None,
) -> C:
    """The claims of a ticket that is genuine, of this kind, for this lab, and still valid.

    Args:
        keys: the issuer's public keys, 32 bytes each (two while it changes its key).
        device_key: the key that signed the request; None where a ticket names no device.

    Raises:
        WireError: a `ticket_*` code, one per cause.
    """
    _check_size(kind, ticket)
    public_key = _issuer(kind, ticket, keys)
    claims = _signed_claims(kind, ticket, public_key)
    _check_lifetime(kind, claims)
    _check_for_now(kind, claims, audience, now_s, device_key)
    return claims


def sign_grant(private_key: Ed25519PrivateKey, grant: Grant) -> str:
    """The coordinator's ticket for one card at one lab. Raises as `sign`."""
    return sign(GRANT, private_key, grant)


def verify_grant(
    ticket: str,
    *,
    keys: Sequence[bytes],
    audience: LabId,
    now_s: float,
    device_key: bytes | None = None,
) -> Grant:
    """A grant that the coordinator made for this lab and for the device with `device_key`."""
    return verify(GRANT, ticket, keys=keys, audience=audience, now_s=now_s, device_key=device_key)


def sign_blob_ticket(private_key: Ed25519PrivateKey, ticket: BlobTicket) -> str:
    """The lab node's ticket for the inputs of the leases under a grant. Raises as `sign`."""
    return sign(BLOB, private_key, ticket)


def verify_blob_ticket(
    ticket: str, *, keys: Sequence[bytes], audience: LabId, now_s: float, device_key: bytes
) -> BlobTicket:
    """A blob ticket that this lab node made for the device with `device_key`."""
    return verify(BLOB, ticket, keys=keys, audience=audience, now_s=now_s, device_key=device_key)


def sign_revocations(private_key: Ed25519PrivateKey, revoked: RevocationList) -> str:
    """The coordinator's ticket over a lab's revocation list. Raises as `sign`."""
    return sign(REVOCATIONS, private_key, revoked)


def verify_revocations(
    ticket: str, *, keys: Sequence[bytes], audience: LabId, now_s: float, known_number: int = 0
) -> RevocationList:
    """A revocation list for this lab that is not older than the one already known.

    Raises:
        WireError: a `ticket_*` code, or `revocations_stale`.
    """
    revoked = verify(REVOCATIONS, ticket, keys=keys, audience=audience, now_s=now_s)
    if revoked.number < known_number:
        raise WireError("revocations_stale", number=revoked.number, known=known_number)
    return revoked


class TicketCache(Generic[C]):
    """Verifies each ticket's signature once, and what may change with time at every use.

    Holds at most `max_entries` tickets, the least recently used leave first. Not for several
    threads at once.
    """

    def __init__(
        self,
        kind: TicketKind[C],
        *,
        keys: Sequence[bytes],
        audience: LabId,
        max_entries: int = 4096,
    ) -> None:
        self._kind = kind
        self._keys = tuple(keys)
        self._audience = audience
        self._max_entries = max_entries
        self._known: OrderedDict[str, C] = OrderedDict()

    def verify(self, ticket: str, *, now_s: float, device_key: bytes | None = None) -> C:
        """The claims of a valid ticket. Raises as the function `verify`."""
        claims = self._known.get(ticket)
        if claims is None:
            claims = verify(
                self._kind,
                ticket,
                keys=self._keys,
                audience=self._audience,
                now_s=now_s,
                device_key=device_key,
            )
            self._known[ticket] = claims
            if len(self._known) > self._max_entries:
                self._known.popitem(last=False)
            return claims
        self._known.move_to_end(ticket)
        try:
            _check_for_now(self._kind, claims, self._audience, now_s, device_key)
        except WireError as refused:
            if refused.code == "ticket_expired":
                del self._known[ticket]
            raise
        return claims

    def replace_keys(self, keys: Sequence[bytes]) -> None:
        """Takes the issuer's new keys and forgets what the old ones vouched for."""
        if tuple(keys) != self._keys:
            self._keys = tuple(keys)
            self._known.clear()

    def __len__(self) -> int:
        return len(self._known)


def _check_size(kind: TicketKind[C], ticket: str) -> None:
    if len(ticket) > kind.max_characters:
        raise WireError(
            "ticket_too_large", kind=kind.word, size=len(ticket), limit=kind.max_characters
        )


def _issuer(kind: TicketKind[C], ticket: str, keys: Sequence[bytes]) -> bytes:
    """Reads the header ourselves, so that no library setting decides what it may ask for."""
    encoded, dot, _ = ticket.partition(".")
    if not dot or len(encoded) > _MAX_HEADER_CHARACTERS:
        raise _malformed(kind, "it has no header of an accepted size")
    try:
        header = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (binascii.Error, ValueError, RecursionError) as cause:
        raise _malformed(kind, "its header is not JSON") from cause
    if not isinstance(header, dict) or any(not isinstance(v, str) for v in header.values()):
        raise _malformed(kind, "its header is not an object of strings")
    if header.get("alg") != _ALGORITHM:
        raise WireError("ticket_algorithm_refused", kind=kind.word)
    if header.get("typ") != kind.typ:
        raise WireError("ticket_wrong_kind", kind=kind.word)
    if set(header) != {"alg", "typ", "kid"}:
        raise _malformed(kind, "its header has other members than alg, typ and kid")
    for public_key in keys:
        if key_id(public_key) == header["kid"]:
            return public_key
    raise WireError("ticket_unknown_key", kind=kind.word)


def _signed_claims(kind: TicketKind[C], ticket: str, public_key: bytes) -> C:
    # Times and audience are compared below, with the time that was passed in.
    options: dict[str, Any] = {
        "require": ["exp", "iat", "jti", "aud"],
        "verify_exp": False,
        "verify_iat": False,
        "verify_aud": False,
    }
    try:
        payload = jwt.decode(
            ticket, _loaded(public_key), algorithms=[_ALGORITHM], options=cast("Any", options)
        )
    except jwt.MissingRequiredClaimError as cause:
        raise WireError("ticket_claim_missing", kind=kind.word, claim=cause.claim) from cause
    except jwt.InvalidSignatureError as cause:
        raise WireError("ticket_signature_wrong", kind=kind.word) from cause
    except (jwt.PyJWTError, ValueError, RecursionError) as cause:
        raise _malformed(kind, "it is not a signed JSON object") from cause
    return _convert(kind, payload)


def _convert(kind: TicketKind[C], payload: object) -> C:
    try:
        return msgspec.convert(payload, kind.claims, strict=True)
    except msgspec.ValidationError as cause:
        raise _malformed(kind, str(cause)[:200]) from cause


def _check_lifetime(kind: TicketKind[C], claims: _Claims) -> None:
    lifetime_s = claims.exp - claims.iat
    if lifetime_s > kind.max_lifetime_s:
        raise WireError(
            "ticket_too_long",
            kind=kind.word,
            lifetime_s=lifetime_s,
            limit_s=kind.max_lifetime_s,
        )


def _check_for_now(
    kind: TicketKind[C],
    claims: _Claims,
    audience: LabId,
    now_s: float,
    device_key: bytes | None,
) -> None:
    if claims.aud != audience:
        raise WireError("ticket_wrong_audience", kind=kind.word, audience=claims.aud, own=audience)
    if claims.iat > now_s + WINDOW_S:
        raise WireError(
            "ticket_from_future", kind=kind.word, issued_utc=utc(claims.iat), own_utc=utc(now_s)
        )
    if now_s >= claims.exp:
        raise WireError(
            "ticket_expired", kind=kind.word, expired_utc=utc(claims.exp), own_utc=utc(now_s)
        )
    if device_key is not None and getattr(claims, "device_key", None) != device_key.hex():
        raise WireError("ticket_wrong_device", kind=kind.word)


def _malformed(kind: TicketKind[C], reason: str) -> WireError:
    return WireError("ticket_malformed", kind=kind.word, reason=reason)


@lru_cache(maxsize=64)
def _loaded(public_key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public_key)
