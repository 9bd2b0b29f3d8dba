"""What volunteers have computed for each user: hours of verified work, by month.

Owns: table `grid_use`. Counted when a result stands (`receipts.credit`): the device's own word, but
never more than passed by the lab's clock between lease and commit, so that nobody uses up a
researcher's hours by claiming them. The lab's own machines cost none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from server_stub.node.store.protocol import Tx

__all__ = ["add", "month_of", "of_lease", "used"]

HOUR_S: Final = 3600.0


def month_of(now_s: float) -> str:
    """The month of a moment, in UTC, as `2026-05`."""
    return time.strftime("%Y-%m", time.gmtime(now_s))


def of_lease(claimed_s: float, issued_s: float, committed_s: float | None) -> float:
    """The seconds that count for one lease."""
    passed_s = 0.0 if committed_s is None else max(0.0, committed_s - issued_s)
    return min(max(0.0, claimed_s), passed_s)


def add(tx: Tx, now_s: float, seconds: Mapping[str, float]) -> None:
    """Books the seconds of jobs for their owners."""
    month = month_of(now_s)
    for job, more in seconds.items():
        tx.change(
            "insert into grid_use(owner, month, seconds) select owner, ?, ? from job where id = ?"
            " on conflict(owner, month) do update set seconds = seconds + excluded.seconds",
            (month, more, job),
        )


def used(tx: Tx, owner: str, now_s: float) -> float:
    """The hours of a user in the month of `now_s`."""
    row = tx.one(
        "select seconds from grid_use where owner = ? and month = ?", (owner, month_of(now_s))
    )
    return 0.0 if row is None else float(row[0]) / HOUR_S
