"""The letters that wait to be sent, in the database, in the transaction that caused them.

Owns: when a letter is due, how often it is tried, and when it is given up. Must not: speak SMTP.

A letter is written in the transaction of what it tells, so neither exists without the other. Its
row is deleted once the SMTP server has taken it: we keep no copies of letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from server_stub.coordinator.store import Transaction

__all__ = [
    "MAX_WAITING",
    "Letter",
    "claim",
    "due",
    "given_up",
    "put_off",
    "queue",
    "sent",
    "waiting",
]

FIRST_RETRY_S: Final = 15.0
LONGEST_RETRY_S: Final = 3600.0
KEEP_S: Final = 3 * 86_400.0
"""A letter that no server took for so long is given up, unless it says an earlier end."""

CLAIM_S: Final = 120.0
"""How long a letter is one server's alone: longer than handing it over may take."""

MAX_WAITING: Final = 100_000
"""Letters beyond this are refused by their handlers: a mail server is away and somebody asks on."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One letter that is to be sent."""

    number: int
    mailbox: str
    subject: str
    words: str
    tries: int


def queue(
    tx: Transaction, now_s: float, mailbox: str, subject: str, words: str, keep_s: float = KEEP_S
) -> None:
    """Puts a letter into the outbox. After `keep_s` it is worth nothing and is given up."""
    tx.execute(
        "INSERT INTO mail (mailbox, subject, words_letter, tries, due_s, until_s)"
        " VALUES (?, ?, ?, 0, ?, ?)",
        mailbox, subject, words, now_s, now_s + keep_s,
    )  # fmt: skip


def waiting(tx: Transaction) -> int:
    """How many letters wait."""
    row = tx.row("SELECT COUNT(*) FROM mail")
    return int(row[0]) if row is not None else 0


def due(tx: Transaction, now_s: float, limit: int) -> list[Letter]:
    """The letters to try now, the longest waiting first."""
    return [
        Letter(*row)
        for row in tx.rows(
            "SELECT number, mailbox, subject, words_letter, tries FROM mail"
            " WHERE due_s <= ? AND until_s > ? ORDER BY due_s, number LIMIT ?",
            now_s, now_s, limit,
        )
    ]  # fmt: skip


def claim(tx: Transaction, now_s: float, letter: Letter) -> bool:
    """Makes a letter this server's alone for a while; False when another has it, or had it.

    A server that dies with it costs the letter that while, and sends it twice only if it died
    between the mail server's word and ours.
    """
    changed = tx.execute(
        "UPDATE mail SET due_s = ? WHERE number = ? AND due_s <= ?",
        now_s + CLAIM_S, letter.number, now_s,
    )  # fmt: skip
    return changed == 1


def sent(tx: Transaction, letter: Letter) -> None:
    """The SMTP server took it, or refused it for good: it is forgotten."""
    tx.execute("DELETE FROM mail WHERE number = ?", letter.number)


def put_off(tx: Transaction, now_s: float, letter: Letter) -> None:
    """It could not be handed over: it is tried again, each time after twice as long."""
    wait_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(letter.tries, 16))
    tx.execute(
        "UPDATE mail SET tries = tries + 1, due_s = ? WHERE number = ?",
        now_s + wait_s, letter.number,
    )  # fmt: skip


def given_up(tx: Transaction, now_s: float) -> int:
    """Deletes the letters whose time is over; how many they were."""
    return tx.execute("DELETE FROM mail WHERE until_s <= ?", now_s)
