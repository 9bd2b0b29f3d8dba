"""The lab's users: tokens for HTTPS, and the system's own users over the Unix socket.

Owns: tables `users` and `token`, and roles. A token is shown once when it is made; only its hash is
kept. It has 256 random bits, so a plain hash is enough. A user of this machine and one with tokens
who have the same name are the same user, and one who was revoked is refused at either door until
somebody gives that name a token or a role again. Must not: know HTTP.
"""

from __future__ import annotations

import base64
import os
import pwd
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gpugoblin.errors import NodeError
from gpugoblin.hashing import digest
from gpugoblin.ids import fresh_id
from server_stub.node.store.protocol import Tx

__all__ = [
    "ROLES",
    "SCOPES",
    "TokenRow",
    "User",
    "UserRow",
    "add",
    "by_token",
    "is_of_this_machine",
    "known_here",
    "listed",
    "local_user",
    "require_valid",
    "revoke",
    "set_role",
]

SCOPES: Final = ("read", "submit")
"""`read`: see one's jobs and results. `submit`: send arrays, start, cancel and delete jobs."""

ROLES: Final = ("researcher", "administrator")
"""`administrator`: sees everybody's jobs and may cancel and delete them."""

TOKEN_DOMAIN: Final = "gpugoblin 2026-11 user token"  # noqa: S105 - a hash domain
PREFIX: Final = "goblin_"
MAX_NAME: Final = 64
DEFAULT_TOKEN: Final = "default"  # noqa: S105 - a name
_NAMELESS: Final = re.compile(r"uid-[0-9]{1,10}", re.ASCII)
"""A user of this machine for whom the system has no name."""


@dataclass(frozen=True, slots=True)
class User:
    """Who is calling. `local`: may name files, which the node opens with its own rights.

    Args:
        token: the hash of the token that said so; empty for users of this machine.
    """

    name: str
    scopes: frozenset[str]
    local: bool
    role: str = ROLES[0]
    token: str = ""

    @property
    def is_administrator(self) -> bool:
        return self.role == "administrator"

    def require(self, scope: str) -> None:
        """Raises NodeError `not_permitted`."""
        if scope not in self.scopes:
            raise NodeError("not_permitted", scope=scope)


class TokenRow(NamedTuple):
    """A token as it is listed. `state`: `valid`, `expired` or `revoked`."""

    name: str
    scopes: str
    state: str
    expires_s: float | None


class UserRow(NamedTuple):
    """A user as it is listed, with the tokens, the oldest first."""

    name: str
    role: str
    is_revoked: bool
    tokens: tuple[TokenRow, ...]


def local_user(
    uid: int, *, all_name_files: bool = False, administrators: Iterable[str] = ()
) -> User:
    """A user of this machine, by what the kernel says of the socket's other end.

    Only who could open them all the same names files: the node's own user, and root.

    Args:
        all_name_files: the operator's word that everybody who may open the socket may see and
            change whatever the node may.
        administrators: names of system users who are administrators; root is one.
    """
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid-{uid}"
    role = ROLES[uid == 0 or name in administrators]
    may_name = all_name_files or uid in (0, os.geteuid())
    return User(name, frozenset(SCOPES), local=may_name, role=role)


def is_of_this_machine(name: str) -> bool:
    """Whether the system may have a user of that name, who needs no token for the Unix socket."""
    if _NAMELESS.fullmatch(name):
        return True
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def known_here(tx: Tx, user: User) -> User:
    """A user of this machine, who may have been made an administrator by name, or revoked.

    It is asked anew for each request: a connection outlasts the moment at which it was opened.

    Raises:
        NodeError: `user_revoked`.
    """
    row = tx.one("select role, revoked_s is not null from users where name = ?", (user.name,))
    if row is not None and row[1]:
        raise NodeError("user_revoked", name=user.name)
    return user if row is None or row[0] != "administrator" else replace(user, role=row[0])


def _hash(token: str) -> str:
    return digest(TOKEN_DOMAIN, token.encode())


def _require_name(what: str, name: str) -> None:
    if not (0 < len(name) <= MAX_NAME and name.isprintable() and "/" not in name):
        raise NodeError(
            "parameter_invalid", name=what, value=name[:MAX_NAME], reason="no usable name"
        )


def _live_user(tx: Tx, now_s: float, name: str) -> str:
    """The id of a user, made or brought back where needed."""
    row = tx.one("select id from users where name = ?", (name,))
    if row is not None:
        tx.change("update users set revoked_s = null where id = ?", (row[0],))
        return str(row[0])
    user = fresh_id("user")
    tx.change("insert into users(id, name, created_s) values(?, ?, ?)", (user, name, now_s))
    return user


def add(
    tx: Tx, now_s: float, name: str, scopes: Iterable[str], *, token: str = DEFAULT_TOKEN,
    expires_s: float | None = None,
) -> str:  # fmt: skip
    """Makes a token for a user, who is made where needed, and returns it.

    Args:
        token: its name; a user may have several, each of a name of its own.
        expires_s: when it ends by itself.

    Raises:
        NodeError: `user_exists`: the user has a token of that name, which works;
            `parameter_invalid` for a name, scope or time that cannot be.
    """
    _require_name("name", name)
    _require_name("token", token)
    for scope in scopes:
        if scope not in SCOPES:
            raise NodeError(
                "parameter_invalid", name="scope", value=scope, reason=f"not in {SCOPES}"
            )
    if expires_s is not None and not now_s < expires_s < now_s + 100 * 366 * 86400:
        raise NodeError(
            "parameter_invalid", name="expiry", value=expires_s, reason="not a time ahead"
        )
    user = _live_user(tx, now_s, name)
    # One that has expired makes room for its successor.
    tx.change(
        "update token set revoked_s = expires_s where user_id = ? and name = ?"
        " and revoked_s is null and expires_s <= ?",
        (user, token, now_s),
    )
    if tx.one(
        "select 1 from token where user_id = ? and name = ? and revoked_s is null", (user, token)
    ):
        raise NodeError("user_exists", name=name, token=token)
    text = PREFIX + base64.b32encode(secrets.token_bytes(32)).decode().rstrip("=").lower()
    tx.change(
        "insert into token(hash, user_id, scopes, created_s, name, expires_s)"
        " values(?, ?, ?, ?, ?, ?)",
        (_hash(text), user, " ".join(sorted(set(scopes))), now_s, token, expires_s),
    )
    return text


def revoke(tx: Tx, now_s: float, name: str, token: str | None = None) -> None:
    """Ends a user's tokens and role, and the way in over the Unix socket, or one token by its
    name; the user's jobs stay.

    Raises:
        NodeError: `user_unknown`, `token_unknown`.
    """
    row = tx.one("select id from users where name = ? and revoked_s is null", (name,))
    if row is None:
        # Who only ever came over the Unix socket has no row yet.
        is_new = tx.one("select 1 from users where name = ?", (name,)) is None
        if not (is_new and token is None and is_of_this_machine(name)):
            raise NodeError("user_unknown", name=name)
        row = (_live_user(tx, now_s, name),)
    ended = tx.change(
        "update token set revoked_s = ? where user_id = ? and revoked_s is null"
        " and (? is null or name = ?)",
        (now_s, row[0], token, token),
    )
    if token is None:
        # Who comes back under this name is an administrator only when somebody says so again.
        tx.change(
            "update users set revoked_s = ?, role = ? where id = ?", (now_s, ROLES[0], row[0])
        )
    elif ended == 0:
        raise NodeError("token_unknown", name=name, token=token)


def set_role(tx: Tx, now_s: float, name: str, role: str) -> None:
    """Makes a user, of this machine or with tokens, an administrator or a researcher.

    Raises:
        NodeError: `parameter_invalid`.
    """
    _require_name("name", name)
    if role not in ROLES:
        raise NodeError("parameter_invalid", name="role", value=role, reason=f"not in {ROLES}")
    tx.change("update users set role = ? where id = ?", (role, _live_user(tx, now_s, name)))


def by_token(tx: Tx, token: str, now_s: float) -> User | None:
    """Whose token this is; None when nobody's.

    Raises:
        NodeError: `token_revoked`, `token_expired`.
    """
    name = _hash(token[:128])
    row = tx.one(
        "select u.name, t.scopes, u.role from token t join users u on u.id = t.user_id"
        " where t.hash = ?",
        (name,),
    )
    if row is None:
        return None
    found = User(row[0], frozenset(row[1].split()), local=False, role=row[2], token=name)
    require_valid(tx, found, now_s)
    return found


def require_valid(tx: Tx, user: User, now_s: float) -> None:
    """What let a user in still holds: the token, or on this machine the name. Raises NodeError
    `token_revoked`, `token_expired`, `user_revoked`."""
    if not user.token:
        known_here(tx, user)
        return
    row = tx.one(
        "select t.revoked_s is not null or u.revoked_s is not null, t.expires_s, t.name"
        " from token t join users u on u.id = t.user_id where t.hash = ?",
        (user.token,),
    )
    if row is None or row[0]:
        raise NodeError("token_revoked", name=user.name)
    if row[1] is not None and row[1] <= now_s:
        raise NodeError("token_expired", name=user.name, token=row[2])


def listed(tx: Tx, now_s: float) -> list[UserRow]:
    """Every user with tokens or a role, by name."""
    users = tx.rows("select id, name, role, revoked_s is not null from users order by name")
    tokens: dict[str, list[TokenRow]] = {}
    for user, name, scopes, revoked, expires_s in tx.rows(
        "select user_id, name, scopes, revoked_s is not null, expires_s from token"
        " order by created_s, hash"
    ):
        is_over = expires_s is not None and expires_s <= now_s
        state = "revoked" if revoked else "expired" if is_over else "valid"
        tokens.setdefault(user, []).append(TokenRow(name, scopes, state, expires_s))
    return [
        UserRow(name, role, bool(revoked), tuple(tokens.get(user, ())))
        for user, name, role, revoked in users
    ]
