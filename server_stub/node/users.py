"""The lab's users: tokens for HTTPS, and the system's own users over the Unix socket.

Owns: tables `users` and `token`. A token is shown once when it is made; only its hash is kept. It
has 256 random bits, so a plain hash is enough. Must not: know HTTP.
"""

from __future__ import annotations

import base64
import os
import pwd
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpugoblin.errors import NodeError
from gpugoblin.hashing import digest
from gpugoblin.ids import fresh_id
from server_stub.node.store.protocol import Tx

__all__ = ["SCOPES", "User", "add", "by_token", "listed", "local_user", "revoke"]

SCOPES: Final = ("read", "submit")
"""`read`: see one's jobs and results. `submit`: send arrays, start, cancel and delete jobs."""

TOKEN_DOMAIN: Final = "gpugoblin 2026-11 user token"  # noqa: S105 - a hash domain
PREFIX: Final = "goblin_"


@dataclass(frozen=True, slots=True)
class User:
    """Who is calling. `local`: may name files, which the node opens with its own rights."""

    name: str
    scopes: frozenset[str]
    local: bool

    def require(self, scope: str) -> None:
        """Raises NodeError `not_permitted`."""
        if scope not in self.scopes:
            raise NodeError("not_permitted", scope=scope)


def local_user(uid: int, *, all_name_files: bool = False) -> User:
    """A user of this machine, by what the kernel says of the socket's other end.

    Only who could open them all the same names files: the node's own user, and root.

    Args:
        all_name_files: the operator's word that everybody who may open the socket may see and
            change whatever the node may.
    """
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid-{uid}"
    return User(name, frozenset(SCOPES), local=all_name_files or uid in (0, os.geteuid()))


def _hash(token: str) -> str:
    return digest(TOKEN_DOMAIN, token.encode())


def add(tx: Tx, now_s: float, name: str, scopes: Iterable[str]) -> str:
    """Makes a user with a token, and returns the token.

    Raises:
        NodeError: `user_exists`, `parameter_invalid` for a name or scope that cannot be.
    """
    if not (0 < len(name) <= 64 and name.isprintable()):
        raise NodeError("parameter_invalid", name="name", value=name[:64], reason="no usable name")
    for scope in scopes:
        if scope not in SCOPES:
            raise NodeError(
                "parameter_invalid", name="scope", value=scope, reason=f"not in {SCOPES}"
            )
    row = tx.one("select id, revoked_s from users where name = ?", (name,))
    if row is not None and row[1] is None:
        raise NodeError("user_exists", name=name)
    user = fresh_id("user") if row is None else str(row[0])
    if row is None:
        tx.change("insert into users values(?, ?, ?, null)", (user, name, now_s))
    else:
        tx.change("update users set revoked_s = null where id = ?", (user,))
    token = PREFIX + base64.b32encode(secrets.token_bytes(32)).decode().rstrip("=").lower()
    tx.change(
        "insert into token values(?, ?, ?, ?, null)",
        (_hash(token), user, " ".join(sorted(set(scopes))), now_s),
    )
    return token


def revoke(tx: Tx, now_s: float, name: str) -> None:
    """Ends all tokens of a user; the user's jobs stay. Raises NodeError `user_unknown`."""
    row = tx.one("select id from users where name = ? and revoked_s is null", (name,))
    if row is None:
        raise NodeError("user_unknown", name=name)
    tx.change("update users set revoked_s = ? where id = ?", (now_s, row[0]))
    tx.change(
        "update token set revoked_s = ? where user_id = ? and revoked_s is null", (now_s, row[0])
    )


def by_token(tx: Tx, token: str) -> User | None:
    """Whose token this is; None when nobody's."""
    row = tx.one(
        "select u.name, t.scopes from token t join users u on u.id = t.user_id"
        " where t.hash = ? and t.revoked_s is null and u.revoked_s is null",
        (_hash(token[:128]),),
    )
    return None if row is None else User(row[0], frozenset(row[1].split()), local=False)


def listed(tx: Tx) -> list[tuple[str, bool]]:
    """Names, and whether each is revoked."""
    rows = tx.rows("select name, revoked_s is not null from users order by name")
    return [(row[0], bool(row[1])) for row in rows]
