"""Ed25519 signatures of requests, of claims for receipts, and of documents.

Owns: what exactly is signed, and the four headers of a signed request. Must not: read a clock,
keep a nonce, or know who a key belongs to; the caller passes those in.

Every signed text is a BLAKE3 digest in a domain of its own, over parts that are each preceded by
their length, so a signature for one purpose is never one for another. All header values are
lower-case hexadecimal or decimal: exactly one spelling each, so a header cannot be altered
without breaking the signature.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import WireError
from gpugoblin.hashing import REQUEST, digest, raw_digest
from gpugoblin.ids import GrantId, LeaseId

__all__ = [
    "FORMS",
    "HEADERS",
    "KEY_HEADER",
    "WINDOW_S",
    "NonceSeen",
    "SignedBy",
    "canonical_json",
    "check_request",
    "claim_bytes",
    "fingerprint",
    "public_key_bytes",
    "sign_claim",
    "sign_json",
    "sign_request",
    "utc",
    "verify_claim",
    "verify_json",
    "verify_request",
]

WINDOW_S: Final = 300
"""How far the sender's clock may be from the receiver's, in seconds, either way."""

SIGNATURE_BYTES: Final = 64
PUBLIC_KEY_BYTES: Final = 32

CLAIM: Final = "gpugoblin 2026-11 claim"
DOCUMENT: Final = "gpugoblin 2026-11 document"
FINGERPRINT: Final = "gpugoblin 2026-11 fingerprint"

KEY_HEADER: Final = "Goblin-Key"
TIME_HEADER: Final = "Goblin-Time"
NONCE_HEADER: Final = "Goblin-Nonce"
SIGNATURE_HEADER: Final = "Goblin-Signature"
HEADERS: Final = (KEY_HEADER, TIME_HEADER, NONCE_HEADER, SIGNATURE_HEADER)

FORMS: Final[dict[str, re.Pattern[str]]] = {
    KEY_HEADER: re.compile(r"[0-9a-f]{64}", re.ASCII),
    TIME_HEADER: re.compile(r"[1-9][0-9]{0,10}", re.ASCII),
    NONCE_HEADER: re.compile(r"[0-9a-f]{32}", re.ASCII),
    SIGNATURE_HEADER: re.compile(r"[0-9a-f]{128}", re.ASCII),
}
"""The one spelling of each header's value."""

_LOWER: Final = {name: name.lower() for name in HEADERS}

NonceSeen = Callable[[bytes, bytes, float], bool]
"""`(public_key, nonce, until_s)`: remembers the pair until then; True when it was there already."""


@dataclass(frozen=True, slots=True)
class SignedBy:
    """Whose signature a request carries. The pair of key and nonce must be new until `until_s`."""

    public_key: bytes
    nonce: bytes
    until_s: float


def sign_request(
    private_key: Ed25519PrivateKey, method: str, path: str, body: bytes, now_s: float
) -> dict[str, str]:
    """The four headers that sign one request. `path` is the path with its query, as sent."""
    time_text = str(int(now_s))
    nonce = secrets.token_bytes(16)
    signed = _request_bytes(method, path, time_text, nonce, body)
    return {
        KEY_HEADER: public_key_bytes(private_key).hex(),
        TIME_HEADER: time_text,
        NONCE_HEADER: nonce.hex(),
        SIGNATURE_HEADER: private_key.sign(signed).hex(),
    }


def check_request(
    headers: Mapping[str, str], method: str, path: str, body: bytes, now_s: float
) -> SignedBy:
    """Who signed this request. The caller must still see to it that the nonce is new.

    Raises:
        WireError: `signature_missing`, `signature_malformed`, `signature_clock_wrong` (says both
            times) or `signature_wrong`, in this order.
    """
    values = {name: _header(headers, name) for name in HEADERS}
    sent_s = int(values[TIME_HEADER])
    if abs(now_s - sent_s) > WINDOW_S:
        raise WireError(
            "signature_clock_wrong", sent_utc=utc(sent_s), own_utc=utc(now_s), window_s=WINDOW_S
        )
    public_key = bytes.fromhex(values[KEY_HEADER])
    nonce = bytes.fromhex(values[NONCE_HEADER])
    signed = _request_bytes(method, path, values[TIME_HEADER], nonce, body)
    if not _is_signed(public_key, bytes.fromhex(values[SIGNATURE_HEADER]), signed):
        raise WireError("signature_wrong")
    return SignedBy(public_key, nonce, sent_s + 2.0 * WINDOW_S)


def verify_request(
    headers: Mapping[str, str],
    method: str,
    path: str,
    body: bytes,
    now_s: float,
    nonce_seen: NonceSeen,
) -> bytes:
    """The public key (32 bytes) that signed this request, if its nonce is new.

    Raises:
        WireError: as `check_request`, and `signature_replayed`.
    """
    signed_by = check_request(headers, method, path, body, now_s)
    if nonce_seen(signed_by.public_key, signed_by.nonce, signed_by.until_s):
        raise WireError("signature_replayed")
    return signed_by.public_key


def claim_bytes(lease: LeaseId, grant: GrantId) -> bytes:
    """What a device signs so that its lab may turn `lease` into a receipt under `grant`."""
    return _digest(CLAIM, (lease.encode(), grant.encode()))


def sign_claim(private_key: Ed25519PrivateKey, lease: LeaseId, grant: GrantId) -> bytes:
    """The device's signature (64 bytes) over `claim_bytes`."""
    return private_key.sign(claim_bytes(lease, grant))


def verify_claim(public_key: bytes, lease: LeaseId, grant: GrantId, signature: bytes) -> None:
    """Raises WireError `claim_signature_wrong` unless `public_key` signed this claim."""
    if not _is_signed(public_key, signature, claim_bytes(lease, grant)):
        raise WireError("claim_signature_wrong", lease=lease, grant=grant)


def canonical_json(document: msgspec.Struct) -> bytes:
    """The deterministic JSON of a document: what decoding its JSON and encoding it again gives.

    A float field that was filled with an integer is written as the float it decodes to, so both
    ends sign and verify the same bytes.

    Raises:
        WireError: `message_malformed`: a field is outside its declaration.
    """
    kind = type(document)
    try:
        first = msgspec.json.encode(document, order="deterministic")
        return msgspec.json.encode(msgspec.json.decode(first, type=kind), order="deterministic")
    except (msgspec.MsgspecError, TypeError, ValueError) as cause:
        raise WireError(
            "message_malformed", message=kind.__name__, reason=str(cause)[:200]
        ) from cause


def sign_json(private_key: Ed25519PrivateKey, document: msgspec.Struct) -> bytes:
    """The signature (64 bytes) over a document's type name and canonical JSON."""
    return private_key.sign(_document_bytes(document))


def verify_json(public_key: bytes, document: msgspec.Struct, signature: bytes) -> None:
    """Raises WireError `document_signature_wrong` unless `public_key` signed this document."""
    if not _is_signed(public_key, signature, _document_bytes(document)):
        raise WireError("document_signature_wrong", document=type(document).__name__)


def public_key_bytes(private_key: Ed25519PrivateKey) -> bytes:
    """The public half of a key, 32 bytes."""
    return private_key.public_key().public_bytes_raw()


def fingerprint(public_key: bytes) -> str:
    """Sixteen hexadecimal digits in four groups, for people who compare keys by eye."""
    digits = digest(FINGERPRINT, public_key)
    return "-".join(digits[start : start + 4] for start in range(0, 16, 4))


def utc(moment_s: float) -> str:
    """Unix seconds as `2026-11-03T12:00:00Z`, for error messages."""
    return datetime.fromtimestamp(moment_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(_LOWER[name])
    if value is None:
        value = headers.get(name)
    if value is None:
        raise WireError("signature_missing", header=name)
    if FORMS[name].fullmatch(value) is None:
        raise WireError("signature_malformed", header=name)
    return value


def _request_bytes(method: str, path: str, time_text: str, nonce: bytes, body: bytes) -> bytes:
    body_digest = raw_digest(REQUEST, body)
    parts = (method.encode(), path.encode(), time_text.encode(), nonce, body_digest)
    return _digest(REQUEST, parts)


def _document_bytes(document: msgspec.Struct) -> bytes:
    return _digest(DOCUMENT, (type(document).__name__.encode(), canonical_json(document)))


def _digest(domain: str, parts: Iterable[bytes]) -> bytes:
    prefixed: list[bytes] = []
    for part in parts:
        prefixed += (len(part).to_bytes(8, "little"), part)
    return raw_digest(domain, b"".join(prefixed))


def _is_signed(public_key: bytes, signature: bytes, signed: bytes) -> bool:
    if len(signature) != SIGNATURE_BYTES or len(public_key) != PUBLIC_KEY_BYTES:
        return False
    opens, refusal = _sodium()
    try:
        opens(signature + signed, public_key)
    except refusal:
        return False
    return True


@cache
def _sodium() -> tuple[Callable[[bytes, bytes], bytes], type[Exception]]:
    # Loaded by those who check: an agent only signs, and libsodium takes a MiB.
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import BadSignatureError

    return crypto_sign_open, BadSignatureError
