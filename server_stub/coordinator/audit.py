"""The record of what the operator did, each line chained to the one before.

Owns: the writing and the checking of the chain. The table refuses changes by trigger; the chain
shows those that were made around it: every link is the hash of the line and of the link before.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.hashing import digest
from server_stub.coordinator.store import Transaction

__all__ = ["latest", "record", "verify_chain"]

AUDIT: Final = "gpugoblin 2026-11 audit"
_FIRST: Final = "0" * 64


def record(tx: Transaction, now_s: float, actor: str, action: str, subject: str) -> None:
    """Appends a line: who did what to which id."""
    last = tx.row("SELECT number, link FROM audit ORDER BY number DESC LIMIT 1")
    number, before = (last[0] + 1, last[1]) if last is not None else (1, _FIRST)
    tx.execute(
        "INSERT INTO audit (number, at_s, actor, action, subject, link) VALUES (?, ?, ?, ?, ?, ?)",
        number,
        now_s,
        actor,
        action,
        subject,
        _link(before, number, now_s, actor, action, subject),
    )


def latest(tx: Transaction, limit: int) -> list[tuple[int, float, str, str, str]]:
    """Number, time, actor, action and subject of the last lines, the latest first."""
    return [
        (number, at_s, actor, action, subject)
        for number, at_s, actor, action, subject in tx.rows(
            "SELECT number, at_s, actor, action, subject FROM audit ORDER BY number DESC LIMIT ?",
            limit,
        )
    ]


def verify_chain(tx: Transaction) -> int | None:
    """The number of the first line that does not fit its chain; None when all do."""
    before = _FIRST
    expected = 1
    for number, at_s, actor, action, subject, link in tx.rows(
        "SELECT number, at_s, actor, action, subject, link FROM audit ORDER BY number"
    ):
        if number != expected or link != _link(before, number, at_s, actor, action, subject):
            return int(number)
        before, expected = link, expected + 1
    return None


def _link(before: str, number: int, at_s: float, actor: str, action: str, subject: str) -> str:
    parts: list[bytes] = []
    for text in (before, str(number), float(at_s).hex(), actor, action, subject):
        encoded = text.encode()
        parts += (len(encoded).to_bytes(8, "little"), encoded)
    return digest(AUDIT, parts)
