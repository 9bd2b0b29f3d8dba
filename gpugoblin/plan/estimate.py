"""How long a plan takes, before anything starts.

Owns: the arithmetic. Must not: measure; every rate is passed in, measured on the machine that it
speaks about.

The model has three resources that work side by side: the engines (or the contributors' cards), the
link, and the lab node that packs, checks and writes. The slowest of them sets the pace, and the
others hide behind it, up to the filling and draining of the pipeline by one task each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpugoblin.errors import PlanError
from gpugoblin.plan.spec import Plan

__all__ = ["CardRates", "Estimate", "NodeRates", "alone_s", "estimate", "require_gain"]


@dataclass(frozen=True, slots=True)
class NodeRates:
    """What the lab node does by itself.

    Args:
        flops_per_s: of its own processors, all cores. read_bytes_per_s, write_bytes_per_s: disk,
            writes synced. hash_bytes_per_s: BLAKE3 on one core.
        link_bytes_per_s: of all contributors together.
    """

    flops_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    hash_bytes_per_s: float = 4e9
    link_bytes_per_s: float = 1e8


@dataclass(frozen=True, slots=True)
class CardRates:
    """One contributor's card: arithmetic, and its own link (infinite for a local engine)."""

    flops_per_s: float
    bytes_per_s: float = float("inf")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Figures of one plan.

    Args:
        seconds: start to the last verified task. alone_s: the lab node by itself, out of core.
        gain: `alone_s / seconds`. bytes_in, bytes_out: toward and from the engines, all tasks.
        verify_s: seconds of the node's processors spent on checks.
    """

    seconds: float
    alone_s: float
    gain: float
    bytes_in: int
    bytes_out: int
    verify_s: float
    executor: Literal["local", "grid"]


def _ratio(amount: float, rate: float) -> float:
    return amount / rate if rate > 0 else float("inf")


def alone_s(plan: Plan, node: NodeRates) -> float:
    """The lab node alone, without checks: it computes while it reads and writes."""
    total = plan.summary()
    disk_s = _ratio(total.bytes_in, node.read_bytes_per_s)
    disk_s += _ratio(total.bytes_out, node.write_bytes_per_s)
    return max(_ratio(total.flops, node.flops_per_s), disk_s)


def estimate(
    plan: Plan,
    node: NodeRates,
    cards: Sequence[CardRates] = (),
    *,
    executor: Literal["local", "grid"] = "local",
    start_s: float = 0.0,
) -> Estimate:
    """The figures of a plan on a fleet.

    Args:
        cards: the contributors' cards; not read for `local`.
        start_s: from the submission to the first card at work.
    """
    total = plan.summary()
    lone_s = alone_s(plan, node)
    verify_s = _ratio(total.verify_flops, node.flops_per_s)
    disk_s = _ratio(total.bytes_in, node.read_bytes_per_s)
    disk_s += _ratio(total.bytes_out, node.write_bytes_per_s)
    hash_s = _ratio(total.bytes_in + total.bytes_out, node.hash_bytes_per_s)
    if executor == "local":
        # Engine and checks share the cores.
        busy_s = _ratio(total.flops, node.flops_per_s) + verify_s
        seconds = max(busy_s, disk_s, hash_s)
    else:
        moved = total.bytes_in + total.bytes_out
        per_task_flops = total.flops / max(1, total.tasks)
        per_task_bytes = moved / max(1, total.tasks)
        tasks_per_s = sum(
            1 / max(1e-9, per_task_flops / card.flops_per_s, per_task_bytes / card.bytes_per_s)
            for card in cards
            if card.flops_per_s > 0 and card.bytes_per_s > 0
        )
        cards_s = _ratio(total.tasks, tasks_per_s)
        if cards:
            # No task is shared: the last one takes as long as it takes on the fastest card.
            cards_s = max(cards_s, min(_alone_on(card, per_task_flops) for card in cards))
        seconds = max(cards_s, _ratio(moved, node.link_bytes_per_s), verify_s, disk_s, hash_s)
    seconds += start_s
    gain = lone_s / seconds if 0 < seconds < float("inf") else 0.0
    return Estimate(seconds, lone_s, gain, total.bytes_in, total.bytes_out, verify_s, executor)


def _alone_on(card: CardRates, flops: float) -> float:
    return _ratio(flops, card.flops_per_s)


def require_gain(found: Estimate, *, forced: bool) -> None:
    """Raises PlanError `plan_no_gain` for a job that would leave this machine to be slower."""
    if found.executor == "grid" and found.gain < 1 and not forced:
        raise PlanError("plan_no_gain", estimate_s=found.seconds, alone_s=found.alone_s)
