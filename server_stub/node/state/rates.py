"""The measured rate of the lab's own engine, kept for the estimates of the next life.

Owns: one row of `meta`. Credit never reads it.
"""

from __future__ import annotations

from typing import Final

from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = ["learn", "local_flops_per_s"]

KEY: Final = "local_flops_per_s"
LEAST_FLOPS: Final = 10**8
LEAST_S: Final = 0.005
WEIGHT: Final = 0.2
"""How much the newest task counts against all before it."""


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
