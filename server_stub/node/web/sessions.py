"""Who is signed in on the pages: a browser's secret stands for a token.

Owns: the rows of `meta` that begin with `session:`. A row holds the token sealed with a key that
only the browser's secret gives, so neither the database nor the cookie alone is worth anything; and
every request looks the token up anew, so that a token that is revoked ends its sessions. Must not:
know HTTP, or what a user may do.
"""

from __future__ import annotations

import base64
import json
import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from gpugoblin.hashing import digest
from server_stub.node.store.protocol import Tx

__all__ = ["LASTS_S", "begin", "end", "token_of"]

LASTS_S: Final = 12 * 3600.0
MAX_SESSIONS: Final = 10_000
MAX_SECRET: Final = 64
_PREFIX: Final = "session:"
_NAME: Final = "gpugoblin 2026-12 session name"
_KEY: Final = "gpugoblin 2026-12 session key"
_NONCE: Final = bytes(12)  # each key seals one text


def begin(tx: Tx, now_s: float, token: str) -> str:
    """Starts a session for a token that was checked; returns the browser's secret."""
    _make_room(tx, now_s)
    secret = secrets.token_urlsafe(32)
    sealed = ChaCha20Poly1305(_key(secret)).encrypt(_NONCE, token.encode(), None)
    value = {"until_s": now_s + LASTS_S, "sealed": base64.b64encode(sealed).decode()}
    tx.change("insert into meta values(?, ?)", (_row(secret), json.dumps(value)))
    return secret


def token_of(tx: Tx, now_s: float, secret: str) -> str | None:
    """The token of a session that has not ended; None otherwise."""
    if not 0 < len(secret) <= MAX_SECRET:
        return None
    row = tx.one("select value from meta where key = ?", (_row(secret),))
    if row is None:
        return None
    value = json.loads(row[0])
    if value["until_s"] <= now_s:
        return None
    try:
        sealed = base64.b64decode(value["sealed"])
        return ChaCha20Poly1305(_key(secret)).decrypt(_NONCE, sealed, None).decode()
    except InvalidTag:  # a row that was changed on the disk
        return None


def end(tx: Tx, secret: str) -> None:
    """Ends a session."""
    tx.change("delete from meta where key = ?", (_row(secret[:MAX_SECRET]),))


def _make_room(tx: Tx, now_s: float) -> None:
    """Old sessions go; of too many, those that end first."""
    rows = tx.rows(
        "select key, value from meta where key >= ? and key < ?", (_PREFIX, _PREFIX + "~")
    )
    ends = sorted((json.loads(value)["until_s"], key) for key, value in rows)
    for number, (until_s, key) in enumerate(ends):
        if until_s <= now_s or number <= len(ends) - MAX_SESSIONS:
            tx.change("delete from meta where key = ?", (key,))


def _row(secret: str) -> str:
    return _PREFIX + digest(_NAME, secret.encode())


def _key(secret: str) -> bytes:
    return bytes.fromhex(digest(_KEY, secret.encode()))
