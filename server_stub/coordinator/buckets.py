"""Token buckets in the database.

Owns: the buckets of wrong codes and of what people send: such a thing must count across restarts
and processes; a request need not (`server_stub.web.rates`).
"""

from __future__ import annotations

from typing import Final

from server_stub.coordinator.store import Transaction
from server_stub.web.rates import Rate, refill, wait_s

__all__ = ["Rate", "take_stored"]

_SWEEP: Final = 16
"""Full buckets that each take sweeps out of the database: more than it adds."""


def take_stored(
    tx: Transaction, now_s: float, scope: str, subject: str, rate: Rate, amount: float
) -> float:
    """Takes `amount` tokens from a bucket in the database, or none when it holds less than one.

    With `amount` 0 the bucket is only looked at. Returns 0.0, or the seconds to wait.
    """
    row = tx.row(
        "SELECT level, at_s FROM rate_bucket WHERE scope = ? AND subject = ?", scope, subject
    )
    level, at_s = row if row is not None else (rate.burst, now_s)
    level = refill(level, now_s - at_s, rate)
    if level < 1.0:
        return wait_s(level, rate)
    if amount:
        # A bucket that is full again says nothing, and one of a mailbox would outlive its owner.
        tx.execute(
            "DELETE FROM rate_bucket WHERE scope = ? AND subject IN"
            " (SELECT subject FROM rate_bucket WHERE scope = ? AND at_s < ? LIMIT ?)",
            scope, scope, now_s - rate.burst / rate.per_s, _SWEEP,
        )  # fmt: skip
        tx.execute(
            "INSERT INTO rate_bucket (scope, subject, level, at_s) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (scope, subject) DO UPDATE SET level = excluded.level,"
            " at_s = excluded.at_s",
            scope,
            subject,
            level - amount,
            now_s,
        )
    return 0.0
