"""How long a plan takes, before anything starts: the one estimator.

Owns: the arithmetic. Must not: measure; every rate is passed in, measured on the machine that it
speaks about.

The model: what different machines do goes on side by side, so there the slowest sets the pace; what
one machine does with the same cores or the same disk is added up. Reading hides behind computing
(the next tile is read ahead), synced writing does not. So an estimate may be too long by what
overlaps by luck; it is not too short by what was left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpugoblin.errors import PlanError
from gpugoblin.plan.spec import PlanSummary

__all__ = ["Estimate", "GridRates", "NodeRates", "estimate", "require_gain"]

HASH_BYTES_PER_S = 2e9
"""BLAKE3 and the copy that is hashed, on one core of a usual machine."""


@dataclass(frozen=True, slots=True)
class NodeRates:
    """What the lab node does by itself.

    Args:
        flops_per_s: of its own processors, all cores.
        read_bytes_per_s, write_bytes_per_s: its disk, writes synced.
        hash_bytes_per_s: what is hashed on the way in and out.
    """

    flops_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    hash_bytes_per_s: float = HASH_BYTES_PER_S


@dataclass(frozen=True, slots=True)
class GridRates:
    """The contributors: how many engines, their arithmetic and their links, summed."""

    engines: int
    flops_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds from the start to the last verified task, and with the lab node alone.

    `alone_s` is what NumPy would take on the node, out of core and without checks.
    """

    seconds: float
    alone_s: float

    @property
    def gain(self) -> float:
        """`alone_s / seconds`, at most 1e9; 1 for a job that takes no time."""
        return min(1e9, self.alone_s / self.seconds) if self.seconds > 0 else 1.0


def _ratio(amount: float, rate: float) -> float:
    return amount / rate if rate > 0 else float("inf") if amount > 0 else 0.0


def estimate(
    summary: PlanSummary,
    node: NodeRates,
    grid: GridRates | None = None,
    *,
    moved_bytes: int = 0,
    start_s: float = 0.0,
) -> Estimate:
    """The figures of a plan.

    Args:
        grid: the contributors; None: the node's own engine computes.
        moved_bytes: inputs and outputs of all tasks together: what the links carry.
        start_s: from the submission to the first contributor at work.
    """
    compute_s = _ratio(summary.flops, node.flops_per_s)
    verify_s = _ratio(summary.verify_flops, node.flops_per_s)
    read_s = _ratio(summary.bytes_in, node.read_bytes_per_s)
    write_s = _ratio(summary.bytes_out, node.write_bytes_per_s)
    hash_s = _ratio(summary.bytes_in + summary.bytes_out, node.hash_bytes_per_s)
    alone_s = max(compute_s, read_s) + write_s
    if grid is None:
        # The engine and the checks share the cores.
        return Estimate(max(compute_s + verify_s + hash_s, read_s) + write_s, alone_s)
    node_s = max(verify_s + hash_s, read_s) + write_s
    cards_s = _ratio(summary.flops, grid.flops_per_s)
    # No task is shared: the last one takes as long as one card takes.
    last_s = cards_s * grid.engines / max(1, summary.tasks)
    link_s = _ratio(moved_bytes, grid.bytes_per_s)
    return Estimate(start_s + max(cards_s, last_s, link_s, node_s), alone_s)


def require_gain(found: Estimate, *, forced: bool) -> None:
    """Raises PlanError `plan_no_gain` for a job that would leave this machine to be slower."""
    if found.gain <= 1 and not forced:
        raise PlanError("plan_no_gain", estimate_s=found.seconds, alone_s=found.alone_s)
