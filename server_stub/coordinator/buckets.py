"""Token buckets: so many at once, then so many a second.

Owns: the arithmetic, the buckets of requests in memory, and those of wrong codes in the database
(a wrong code must count across restarts and processes; a request need not).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from server_stub.coordinator.store import Transaction

__all__ = ["Rate", "RequestBuckets", "refill", "take_stored", "wait_s"]

MAX_KNOWN: Final = 50_000
"""Buckets kept in memory; the longest unused leave first (they are full again anyway)."""

_SWEEP: Final = 16
"""Full buckets that each take sweeps out of the database: more than it adds."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` tokens at once, `per_s` of them come back each second."""

    per_s: float
    burst: float


def refill(level: float, elapsed_s: float, rate: Rate) -> float:
    """What a bucket with `level` holds `elapsed_s` later. A clock that went back adds nothing."""
    return min(rate.burst, level + max(0.0, elapsed_s) * rate.per_s)


def wait_s(level: float, rate: Rate) -> float:
    """Whole seconds until a bucket holds a token again; at least 1."""
    return max(1.0, math.ceil((1.0 - level) / rate.per_s))


class RequestBuckets:
    """Buckets by subject, in memory, bounded in number."""

    def __init__(self, rate: Rate, max_known: int = MAX_KNOWN) -> None:
        self._rate = rate
        self._max_known = max_known
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, subject: str, now_s: float) -> float:
        """Takes a token; 0.0, or the seconds to wait when there is none."""
        level, at_s = self._buckets.pop(subject, (self._rate.burst, now_s))
        level = refill(level, now_s - at_s, self._rate)
        refused_s = 0.0
        if level < 1.0:
            refused_s = wait_s(level, self._rate)
        else:
            level -= 1.0
        self._buckets[subject] = (level, now_s)
        if len(self._buckets) > self._max_known:
            self._buckets.popitem(last=False)
        return refused_s


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
