"""Measured rates: the lab's own engine, kept for the next life, and volunteers' devices.

Owns: one row of `meta`; what the leases say about each device. Credit never reads any of it.

What a device says about itself is worth little: the estimates that a researcher decides by must
not follow the word of one of them. Its rate is that of its newest verified results, by the lab's
clock; before there are any, its word counts within a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Row, Tx

__all__ = ["believed", "grid_flops_per_s", "learn", "local_flops_per_s"]

KEY: Final = "local_flops_per_s"
LEAST_FLOPS: Final = 10**8
LEAST_S: Final = 0.005
WEIGHT: Final = 0.2
"""How much the newest task counts against all before it."""

GRID_LEASES: Final = 4096
GRID_LEAST_FLOPS: Final = 10**9
"""Smaller tasks measure how often a device asks, not how fast it computes."""

CLAIM_FLOPS_PER_S: Final = 1e13
CLAIM_BYTES_PER_S: Final = 1.25e9
"""More is believed of nobody who has not shown it: a large card, a link of 10 Gbit/s."""


def local_flops_per_s(tx: Tx) -> float:
    """The rate; 0 before anything was measured."""
    row = tx.one("select value from meta where key = ?", (KEY,))
    return 0.0 if row is None else float(row[0])


def learn(step: Step, flops: int, compute_s: float) -> float:
    """Takes in one task; tasks that are too short to measure change nothing. Returns the rate."""
    before = local_flops_per_s(step.tx)
    if flops < LEAST_FLOPS or compute_s < LEAST_S:
        return before
    measured = flops / compute_s
    rate = measured if before == 0.0 else (1.0 - WEIGHT) * before + WEIGHT * measured
    step.tx.change(
        "insert into meta values(?, ?) on conflict(key) do update set value = excluded.value",
        (KEY, repr(rate)),
    )
    return rate


def grid_flops_per_s(tx: Tx) -> dict[str, float]:
    """Rates of the devices with verified results among the newest leases of the lab.

    A device's time runs from when it had a lease to when it named the result, less what an
    earlier result of it has taken already: several leases at once are no reason to seem slow, and
    results that come together are no reason to seem fast.
    """
    newest: dict[str, list[Row]] = {}
    for row in tx.rows(
        "select l.device, t.flops, l.issued_s, l.committed_s from lease l join task t"
        " on t.id = l.task where l.rowid > (select coalesce(max(rowid), 0) from lease) - ?"
        " and l.state = 'accepted' and l.committed_s is not null and t.flops >= ?"
        " and l.grant_id != '' order by l.committed_s",
        (GRID_LEASES, GRID_LEAST_FLOPS),
    ):
        newest.setdefault(row[0], []).append(row)
    rates = ((device, _rate(rows)) for device, rows in newest.items())
    return {device: rate for device, rate in rates if rate > 0.0}


def _rate(rows: Sequence[Row]) -> float:
    flops, busy_s, until_s = 0, 0.0, 0.0
    for _, task_flops, issued_s, committed_s in rows:
        flops += task_flops
        busy_s += max(0.0, committed_s - max(issued_s, until_s))
        until_s = max(until_s, committed_s)
    return flops / busy_s if busy_s >= LEAST_S else 0.0


def believed(claimed_flops_per_s: float, measured: float | None, best: float) -> float:
    """The rate of a device in an estimate: what was measured, or its word within a bound.

    Args:
        best: the highest rate that was measured of any device; 0 while there is none.
    """
    if measured is not None:
        return measured
    return min(claimed_flops_per_s, best or CLAIM_FLOPS_PER_S)
