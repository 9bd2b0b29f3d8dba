"""Signing in by a code in a letter, and the sessions of browsers.

Owns: the life of a code and of a session. A code is bound to the browser that asked for it, ends
soon, can be tried a few times, and is stored as a keyed hash. Answers are the same whether the
mailbox is known or not, so nobody learns who has an account. A new mailbox becomes an account when
its code comes back, not before.
"""

from __future__ import annotations

import hmac
import random
import re
from dataclasses import dataclass
from typing import Final

from gpugoblin.errors import CoordinatorError
from gpugoblin.hashing import digest
from gpugoblin.ids import AccountId
from server_stub.coordinator import audit
from server_stub.coordinator.buckets import Rate, take_stored
from server_stub.coordinator.house import House, draw_id
from server_stub.coordinator.mail import letters, outbox
from server_stub.coordinator.pseudonyms import network_bucket
from server_stub.coordinator.store import Transaction

__all__ = [
    "Person",
    "SessionRow",
    "ask_code",
    "is_still",
    "mailbox_of",
    "person_of",
    "redeem",
    "redeem_account",
    "sessions",
    "sign_out",
    "sign_out_all",
    "sign_out_other",
    "tag_of",
]

SESSION: Final = "gpugoblin 2026-11 session"
LOGIN_CODE: Final = "gpugoblin 2026-11 login code"
CODE_DIGITS: Final = 8
MAX_SESSIONS: Final = 20
"""Browsers of one account; the longest silent is signed out for a new one."""

_LETTERS: Final = Rate(1 / 30.0, 60.0)
"""Letters that one network may ask for: a class signs in at once, a flood does not."""

_TAG_DIGITS: Final = 16
"""Of the hash of a secret: enough to tell the sessions of an account apart."""

_TOUCH_S: Final = 60.0
"""A session is written that it was seen at most so often."""

_MAILBOX: Final = re.compile(
    # No dot at an end or beside another (RFC 5321, dot-string), and no `=?`: programs of mail
    # decode it as an encoded word (RFC 2047), so it would be a spelling of another mailbox.
    r"(?=[^@]{1,64}@)(?![^@]*=\?)"
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
"""The form that browsers accept (HTML standard, valid e-mail address), without its oddities."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who uses a browser."""

    account: AccountId
    name: str
    mailbox: str
    role: str
    language: str
    is_listed: bool
    created_s: float
    signed_in_s: float

    @property
    def is_operator(self) -> bool:
        return self.role == "operator"


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A browser that is signed in. `tag` names the session and opens nothing."""

    tag: str
    created_s: float
    seen_s: float
    is_own: bool


def mailbox_of(text: str) -> str:
    """A mail address as we store it: the domain in lower case.

    Raises:
        CoordinatorError: `mailbox_malformed`.
    """
    text = text.strip()
    if len(text) > 254 or _MAILBOX.fullmatch(text) is None:
        raise CoordinatorError("mailbox_malformed")
    local, _, domain = text.rpartition("@")
    return f"{local}@{domain.lower()}"


def ask_code(
    house: House, tx: Transaction, now_s: float, rng: random.Random, mailbox: str, language: str,
    address: str,
) -> str:  # fmt: skip
    """Sends a letter with a code; the secret with which the same browser brings the code back.

    A mailbox that got too many letters gets none, and the answer is the same: whoever asks learns
    nothing, and nobody's mailbox is flooded. A network that asks for too many is told so.

    Args:
        address: where the request came from.

    Raises:
        CoordinatorError: `mailbox_malformed`, `signin_off`, `mail_crowded`,
            `coordinator_rate_limited`.
    """
    mailbox = mailbox_of(mailbox)
    settings = house.settings
    if not settings.mail_host:
        raise CoordinatorError("signin_off")
    if outbox.waiting(tx) >= outbox.MAX_WAITING:
        raise CoordinatorError("mail_crowded")
    tx.execute("DELETE FROM login_code WHERE expires_s < ?", now_s)
    network = network_bucket(house.pseudonym_key, address, None)
    refused_s = take_stored(tx, now_s, "letters", network, _LETTERS, 1.0)
    if refused_s:
        raise CoordinatorError("coordinator_rate_limited", scope="network", wait_s=refused_s)
    ask = draw_id("ask", rng)
    rate = Rate(1.0 / settings.letter_s, float(settings.letters_at_once))
    if take_stored(tx, now_s, "letter", _letter_box(house, mailbox), rate, 1.0):
        return ask
    code = f"{rng.randrange(10**CODE_DIGITS):0{CODE_DIGITS}}"
    tx.execute(
        "INSERT INTO login_code (ask, mailbox, code, language, tries_left, expires_s)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        _hidden(ask), mailbox, _code_hash(house, ask, code), language, settings.login_tries,
        now_s + settings.login_s,
    )  # fmt: skip
    subject, words = letters.code(code, settings.login_s, language)
    outbox.queue(tx, now_s, mailbox, subject, words, settings.login_s)
    return ask


def redeem(
    house: House, tx: Transaction, now_s: float, rng: random.Random, ask: str, code: str
) -> str | CoordinatorError:
    """A session's secret for a right code; else why not.

    A wrong code costs a try, so the refusal is returned and not raised: a raised error would undo
    that. It is the same for a code that is wrong, used, too old or was never sent.
    """
    account = redeem_account(house, tx, now_s, rng, ask, code)
    if isinstance(account, CoordinatorError):
        return account
    tx.execute(
        "DELETE FROM session WHERE account = ? AND session NOT IN"
        " (SELECT session FROM session WHERE account = ? ORDER BY seen_s DESC LIMIT ?)",
        account, account, MAX_SESSIONS - 1,
    )  # fmt: skip
    secret = draw_id("session", rng)
    tx.execute(
        "INSERT INTO session (session, account, created_s, seen_s) VALUES (?, ?, ?, ?)",
        _hidden(secret), account, now_s, now_s,
    )  # fmt: skip
    return secret


def redeem_account(
    house: House, tx: Transaction, now_s: float, rng: random.Random, ask: str, code: str
) -> AccountId | CoordinatorError:
    """The account of whoever reads the mailbox, made where it is new; else why not, as `redeem`."""
    row = tx.row(
        "SELECT mailbox, code, language, tries_left FROM login_code"
        " WHERE ask = ? AND expires_s > ? AND tries_left > 0",
        _hidden(ask), now_s,
    )  # fmt: skip
    # Keyboards of Japanese type digits of full width.
    digits = "".join(str(int(letter)) for letter in code if letter.isdecimal())[:CODE_DIGITS]
    if row is None:
        return CoordinatorError("login_code_wrong")
    mailbox, stored, language, tries_left = row
    if not hmac.compare_digest(_code_hash(house, ask, digits), stored):
        tx.execute(
            "UPDATE login_code SET tries_left = ? WHERE ask = ?", tries_left - 1, _hidden(ask)
        )
        return CoordinatorError("login_code_wrong")
    tx.execute("DELETE FROM login_code WHERE ask = ?", _hidden(ask))
    return AccountId(_account_of(tx, now_s, rng, mailbox, language))


def person_of(house: House, tx: Transaction, now_s: float, secret: str) -> Person | None:
    """Who is signed in with this secret, if that session still lives."""
    row = tx.row(
        "SELECT account.account, name, mailbox, role, language, is_listed, account.created_s,"
        " session.created_s, seen_s FROM session JOIN account USING (account)"
        " WHERE session = ? AND closed_s IS NULL",
        _hidden(secret),
    )
    if row is None:
        return None
    settings = house.settings
    *facts, created_s, seen_s = row
    if now_s - created_s > settings.session_s or now_s - seen_s > settings.session_idle_s:
        tx.execute("DELETE FROM session WHERE session = ?", _hidden(secret))
        return None
    if now_s - seen_s > _TOUCH_S:
        tx.execute("UPDATE session SET seen_s = ? WHERE session = ?", now_s, _hidden(secret))
    account, name, mailbox, role, language, is_listed, made_s = facts
    return Person(
        AccountId(account), name, mailbox or "", role, language, bool(is_listed), made_s, created_s
    )


def is_still(tx: Transaction, secret: str, person: Person) -> bool:
    """Whether a session still is what it was when its request began: not ended, not demoted."""
    row = tx.row(
        "SELECT role, name FROM session JOIN account USING (account)"
        " WHERE session = ? AND account = ? AND closed_s IS NULL",
        _hidden(secret), person.account,
    )  # fmt: skip
    return row == (person.role, person.name)


def sign_out(tx: Transaction, secret: str) -> None:
    """Ends one session."""
    tx.execute("DELETE FROM session WHERE session = ?", _hidden(secret))


def sign_out_all(tx: Transaction, account: str) -> int:
    """Ends every session of an account; how many they were."""
    return tx.execute("DELETE FROM session WHERE account = ?", account)


def sessions(
    house: House, tx: Transaction, now_s: float, account: str, own: str
) -> list[SessionRow]:
    """The browsers in which an account is signed in, the one that asks first, then the latest.

    Args:
        own: the secret of the session that asks.
    """
    settings = house.settings
    rows = tx.rows(
        "SELECT session, created_s, seen_s FROM session"
        " WHERE account = ? AND created_s >= ? AND seen_s >= ? ORDER BY seen_s DESC, session",
        account, now_s - settings.session_s, now_s - settings.session_idle_s,
    )  # fmt: skip
    found = [
        SessionRow(hidden[:_TAG_DIGITS], created_s, seen_s, hidden == _hidden(own))
        for hidden, created_s, seen_s in rows
    ]
    return sorted(found, key=lambda one: not one.is_own)


def sign_out_other(tx: Transaction, now_s: float, account: str, tag: str) -> None:
    """Ends the session of that tag, if it is the account's.

    Raises:
        CoordinatorError: `coordinator_subject_unknown`: also for somebody else's, and for one that
            has ended by itself.
    """
    if len(tag) != _TAG_DIGITS or not tx.execute(
        "DELETE FROM session WHERE account = ? AND substr(session, 1, ?) = ?",
        account, _TAG_DIGITS, tag,
    ):  # fmt: skip
        raise CoordinatorError("coordinator_subject_unknown", kind="session", name=tag[:64])
    audit.record(tx, now_s, account, "session_end", account)


def tag_of(secret: str) -> str:
    """Names in logs what a secret opens: the same for the same secret, and of no use to a thief."""
    return _hidden(secret)[:_TAG_DIGITS]


def _account_of(
    tx: Transaction, now_s: float, rng: random.Random, mailbox: str, language: str
) -> str:
    row = tx.row("SELECT account FROM account WHERE mailbox = ?", mailbox)
    if row is not None:
        return str(row[0])
    account = draw_id("account", rng)
    name = f"goblin-{account[-6:]}"
    while tx.row("SELECT 1 FROM account WHERE name = ?", name) is not None:
        name = f"goblin-{draw_id('name', rng)[-8:]}"
    tx.execute(
        "INSERT INTO account (account, name, created_s, mailbox, language) VALUES (?, ?, ?, ?, ?)",
        account, name, now_s, mailbox, language,
    )  # fmt: skip
    audit.record(tx, now_s, account, "account_add", account)
    return account


def _hidden(secret: str) -> str:
    """What is stored of a secret of 128 bits: a thief of the database can use none."""
    return digest(SESSION, secret.encode())


def _letter_box(house: House, mailbox: str) -> str:
    """Whose letters are counted: nearly every server reads upper and lower case as the same."""
    return digest(LOGIN_CODE, (house.pseudonym_key, b"mailbox", mailbox.lower().encode()))


def _code_hash(house: House, ask: str, code: str) -> str:
    """A code has 27 bits, so its hash is keyed: the database alone does not give it away."""
    return digest(LOGIN_CODE, (house.pseudonym_key, ask.encode(), b"\0", code.encode()))
