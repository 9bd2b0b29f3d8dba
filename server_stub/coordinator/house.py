"""What every handler is given beside the transaction: settings, keys and who is asking.

Owns: `House`, `Caller`, and the drawing of ids and codes from the generator that is passed in.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.wire.signing import public_key_bytes
from server_stub.coordinator.settings import Settings

__all__ = ["Caller", "House", "draw_code", "draw_id", "draw_long_code", "spelled"]

_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""RFC 8628, section 6.1: no vowels, so no words; no digits, so none is taken for a letter."""


@dataclass(frozen=True, slots=True)
class House:
    """The settings and secrets of one coordinator.

    Args:
        ticket_key: signs grants and revocation lists.
        pseudonym_key: 32 bytes that make pseudonyms which only this coordinator can undo.
    """

    settings: Settings
    ticket_key: Ed25519PrivateKey
    pseudonym_key: bytes

    @property
    def public_key(self) -> bytes:
        return public_key_bytes(self.ticket_key)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: the key that signed it (checked), and from which address.

    The pair of key and nonce must be new until `until_s`.
    """

    public_key: bytes
    nonce: bytes
    until_s: float
    address: str


def draw_id(prefix: str, rng: random.Random) -> str:
    """A random id as `gpugoblin.ids.fresh_id` makes them (128 bits)."""
    digits = base64.b32encode(rng.randbytes(16)).decode("ascii").rstrip("=").lower()
    return f"{prefix}_{digits}"


def draw_code(rng: random.Random) -> str:
    """A code for people to approve, such as `WDJB-MJHT` (34 bits)."""
    letters = "".join(rng.choice(_CODE_LETTERS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def draw_long_code(rng: random.Random) -> str:
    """A code that nobody finds by trying (69 bits), and that can still be typed from paper."""
    return f"{draw_code(rng)}-{draw_code(rng)}"


def spelled(code: str) -> str:
    """A code as it is stored, from any spelling of it."""
    letters = "".join(
        letter for letter in code[:64].upper() if letter.isascii() and letter.isalpha()
    )
    return "-".join(letters[start : start + 4] for start in range(0, len(letters), 4))
