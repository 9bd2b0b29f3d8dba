"""How long a job will take, and whether the grid gains anything.

Owns: the node's rates for the estimator (`gpugoblin.plan.estimate`), and how its figures are shown.
Pure. The rates are measured ones where there are any; a guess is only made for a lab that has never
computed.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.plan.estimate import Estimate, GridRates, NodeRates, estimate
from gpugoblin.plan.spec import PlanSummary
from gpugoblin.wire.messages.job import PlanReply
from server_stub.node.executors.base import Fleet

__all__ = ["GUESSED_FLOPS_PER_S", "READ_BYTES_PER_S", "as_reply", "times"]

GUESSED_FLOPS_PER_S: Final = 40e9
"""One core of a usual machine, float32 products in NumPy."""

READ_BYTES_PER_S: Final = 5e8
"""A disk that is not the newest; what was read a moment ago comes faster."""


def times(
    summary: PlanSummary, moved_bytes: int, executor: str, local: Fleet, grid: Fleet,
    startup_s: float, write_bytes_per_s: float,
) -> Estimate:  # fmt: skip
    """Estimates a plan. The node alone works out of core: it reads and writes its own disk.

    Args:
        moved_bytes: inputs and outputs of all tasks together: what a grid sends.
        write_bytes_per_s: of the node's disk, synced, measured.
    """
    own = local.flops_per_s or GUESSED_FLOPS_PER_S * max(1, local.threads)
    node = NodeRates(own, READ_BYTES_PER_S, write_bytes_per_s)
    if executor == "local":
        return estimate(summary, node)
    if grid.engines == 0:
        # Nobody is known yet, so nothing can be compared: as if one came that is like this node.
        alone_s = estimate(summary, node).alone_s
        return Estimate(alone_s + startup_s, alone_s)
    rates = GridRates(grid.engines, max(grid.flops_per_s, 1.0), max(grid.bytes_per_s, 1.0))
    return estimate(summary, node, rates, moved_bytes=moved_bytes, start_s=startup_s)


def as_reply(
    summary: PlanSummary, found: Estimate, executor: str, node_memory_bytes: int
) -> PlanReply:
    """The figures as they are shown."""
    return PlanReply(
        kind=summary.kind, tasks=summary.tasks, tile=summary.tile, flops=summary.flops,
        verify_flops=summary.verify_flops, bytes_in=summary.bytes_in, bytes_out=summary.bytes_out,
        memory_bound_bytes=summary.memory_bound_bytes, node_memory_bytes=node_memory_bytes,
        estimate_s=found.seconds, alone_s=found.alone_s, gain=found.gain,
        executor=executor,  # type: ignore[arg-type] # submission knows no others
    )  # fmt: skip
