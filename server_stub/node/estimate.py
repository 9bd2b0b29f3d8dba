"""How long a job will take, and whether the grid gains anything.

Owns: the figures that are shown before anything starts. Pure. The rates are measured ones where
there are any; a guess is only made for a lab that has never computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpugoblin.plan.spec import PlanSummary
from gpugoblin.wire.messages.job import PlanReply
from server_stub.node.executors.base import Fleet

__all__ = ["DISK_BYTES_PER_S", "GUESSED_FLOPS_PER_S", "Times", "as_reply", "times"]

GUESSED_FLOPS_PER_S: Final = 40e9
"""One core of a usual machine, float32 products in NumPy."""

DISK_BYTES_PER_S: Final = 5e8


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds with the chosen executor, and with this node alone."""

    estimate_s: float
    alone_s: float

    @property
    def gain(self) -> float:
        return min(1e9, self.alone_s / self.estimate_s) if self.estimate_s > 0 else 1.0


def times(
    summary: PlanSummary, moved_bytes: int, executor: str, local: Fleet, grid: Fleet,
    startup_s: float,
) -> Times:  # fmt: skip
    """Estimates a plan. The node alone works out of core: it reads and writes its own disk.

    Args:
        moved_bytes: inputs and outputs of all tasks together: what a grid sends.
    """
    own = local.flops_per_s or GUESSED_FLOPS_PER_S * max(1, local.threads)
    disk_s = (summary.bytes_in + summary.bytes_out) / DISK_BYTES_PER_S
    alone_s = max(summary.flops / own, disk_s)
    if executor == "local":
        return Times(max((summary.flops + summary.verify_flops) / own, disk_s), alone_s)
    if grid.engines == 0:
        # Nobody is known yet: there is nothing to compare with.
        return Times(alone_s + startup_s, alone_s)
    compute_s = summary.flops / max(grid.flops_per_s, 1.0)
    link_s = moved_bytes / max(grid.bytes_per_s, 1.0)
    return Times(startup_s + max(compute_s, link_s, summary.verify_flops / own), alone_s)


def as_reply(
    summary: PlanSummary, found: Times, executor: str, node_memory_bytes: int
) -> PlanReply:
    """The figures as they are shown."""
    return PlanReply(
        kind=summary.kind, tasks=summary.tasks, tile=summary.tile, flops=summary.flops,
        verify_flops=summary.verify_flops, bytes_in=summary.bytes_in, bytes_out=summary.bytes_out,
        memory_bound_bytes=summary.memory_bound_bytes, node_memory_bytes=node_memory_bytes,
        estimate_s=found.estimate_s, alone_s=found.alone_s, gain=found.gain,
        executor="grid" if executor == "grid" else "local",
    )  # fmt: skip
