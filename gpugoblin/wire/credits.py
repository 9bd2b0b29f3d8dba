"""Certificates of credits: what a coordinator seals, and what is kept of it.

Owns: the form of what is sealed and the check of a seal, which needs the coordinator's public key
and nobody's answer. Must not: know how credits are counted.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import Hex64
from gpugoblin.wire.signing import verify_json

__all__ = ["MICRO", "Certificate", "SealedCertificate", "check"]

MICRO: Final = 1_000_000
"""Millionths in a unit of verified work."""

_Name = Annotated[str, Meta(max_length=64)]
_Day = Annotated[int, Meta(ge=0, le=4_000_000)]
_Many = Annotated[int, Meta(ge=0, le=2**62)]


class Certificate(Struct, frozen=True, forbid_unknown_fields=True):
    """What is certified. Days count from 1970, in UTC; a unit has a million `micro_units`."""

    code: Annotated[str, Meta(max_length=64)]
    name: _Name
    lab: _Name
    since_day: _Day
    until_day: _Day
    micro_units: _Many
    receipts: _Many
    issued_day: _Day

    @property
    def units(self) -> float:
        return self.micro_units / MICRO


class SealedCertificate(Struct, frozen=True, forbid_unknown_fields=True):
    """A certificate with its seal, to be kept: `check` needs nothing else.

    Args:
        seal: Ed25519 of the coordinator over `certificate`, 128 hexadecimal digits.
        coordinator_key: the public key that made it. It proves nothing by standing here: compare
            it with the one that the coordinator's pages show.
    """

    certificate: Certificate
    seal: Annotated[str, Meta(pattern=r"\A[0-9a-f]{128}\Z")]
    coordinator_key: Hex64


def check(sealed: SealedCertificate, coordinator_key: str = "") -> None:
    """Whether the seal is of that key, and of these facts.

    Args:
        coordinator_key: the key that you know, 64 hexadecimal digits; "": the one in the document,
            so that the check says only that nothing was changed since that key sealed it.

    Raises:
        WireError: `document_signature_wrong`.
    """
    key = bytes.fromhex(coordinator_key or sealed.coordinator_key)
    verify_json(key, sealed.certificate, bytes.fromhex(sealed.seal))
