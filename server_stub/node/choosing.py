"""Who computes a job: the plans for each executor that is there, and which of them is taken.

Owns: what can be said against an executor for a job, with its figure. Must not: store anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpugoblin.catalog.spec import FLOATS
from gpugoblin.errors import NodeError
from gpugoblin.graph.dtypes import in_class, needs_of
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.spec import Limits, Plan
from gpugoblin.units import format_bytes, format_seconds
from gpugoblin.wire.messages.job import JobSubmit, PlanReply
from gpugoblin.wire.messages.task import Constraints
from server_stub.node import estimate
from server_stub.node.executors.base import Fleet
from server_stub.node.node import Node
from server_stub.node.planning import total_bytes_moved
from server_stub.node.state import quotas

__all__ = [
    "Choice",
    "choose",
    "fleet_of",
    "has_hours",
    "may_leave",
    "require_confirmed",
    "require_hours",
    "require_local",
    "require_offered",
    "require_ray",
]


@dataclass(frozen=True, slots=True)
class Choice:
    """An executor with the plan made for it."""

    executor: str
    limits: Limits
    plan: Plan
    reply: PlanReply
    moved_bytes: int


async def choose(node: Node, message: JobSubmit, graph: Graph, owner: str) -> Choice:
    """Plans for the executor that was asked for, or for the fastest one that the owner may use.

    Raises:
        NodeError: `executor_unavailable`, `not_confirmed`, `quota_grid_hours`,
            `slower_than_alone`, `job_too_large`; PlanError.
    """
    local = await node.local.capabilities()
    needs = in_class(needs_of(graph).mask(), message.numeric_class)
    wanted = message.executor

    async def of(executor: str) -> Choice:
        fleet = local if executor == "local" else await fleet_of(node, executor, needs)
        return await _plan_for(node, message, graph, executor, local, fleet)

    if wanted == "ray":
        require_ray(node)
        return await of("ray")
    if wanted == "grid":
        require_confirmed(node)
        await require_hours(node, owner)
        choice = await of("grid")
        _require_gain(message, choice, await fleet_of(node, "grid", needs))
        return choice
    if wanted == "local":
        require_local(node)
        return await of("local")
    return await _fastest(node, needs, of, owner)


async def require_hours(node: Node, owner: str) -> None:
    """Raises NodeError `quota_grid_hours`."""
    now_s = node.clock.wall_s()
    await node.store.read(lambda tx: quotas.require_grid(tx, owner, now_s))


async def has_hours(node: Node, owner: str) -> bool:
    """Whether a user may begin something for volunteers, as far as hours go."""
    try:
        await require_hours(node, owner)
    except NodeError:
        return False
    return True


async def _fastest(
    node: Node, needs: int, of: Callable[[str], Awaitable[Choice]], owner: str
) -> Choice:
    """Among those that are there: the lab's own machines first, where nobody is faster."""
    choices = []
    grid = may_leave(node) and await has_hours(node, owner)
    if node.settings.local_engine:
        choices.append(await of("local"))
    for executor, able in (("ray", node.ray is not None), ("grid", grid)):
        if able and (not choices or (await fleet_of(node, executor, needs)).engines):
            choices.append(await of(executor))
    if not choices:
        require_local(node)
    own, *others = choices
    for other in others:
        if other.reply.gain > 1.0 and other.reply.estimate_s < own.reply.estimate_s:
            own = other
    return own


async def fleet_of(node: Node, executor: str, needs: int) -> Fleet:
    """What an executor other than `local` has for a graph with such needs."""
    return await node.executors[executor].capabilities(needs)


def require_local(node: Node) -> None:
    """Raises NodeError `executor_unavailable` where the node has no engine."""
    if not node.settings.local_engine:
        reason = "the node has no engine of its own"
        raise NodeError("executor_unavailable", executor="local", reason=reason)


def require_ray(node: Node) -> None:
    """Raises NodeError `executor_unavailable` where the node has no Ray cluster."""
    if node.ray is None:
        reason = "the node's configuration names no Ray cluster (executor, ray_address)"
        raise NodeError("executor_unavailable", executor="ray", reason=reason)


def may_leave(node: Node) -> bool:
    """Whether jobs of this node may leave the machine."""
    settings = node.settings
    return bool(
        settings.lab and "grid" in settings.executors and settings.confirmed_no_confidential_data
    )


def require_offered(constraints: Constraints) -> None:
    """Raises NodeError `link_not_offered` for a condition that no lease would follow."""
    if constraints.min_link_bytes_per_s:
        raise NodeError("link_not_offered", wanted=constraints.min_link_bytes_per_s)


def require_confirmed(node: Node) -> None:
    """Raises NodeError `executor_unavailable`, `not_confirmed`, where jobs may not leave."""
    if not node.settings.lab:
        raise NodeError(
            "executor_unavailable", executor="grid", reason="the node belongs to no lab"
        )
    if "grid" not in node.settings.executors:
        reason = "the node's configuration leaves it out (executor)"
        raise NodeError("executor_unavailable", executor="grid", reason=reason)
    if not node.settings.confirmed_no_confidential_data:
        raise NodeError("not_confirmed")


def _require_gain(message: JobSubmit, choice: Choice, grid: Fleet) -> None:
    reply = choice.reply
    if not message.force and grid.engines and reply.gain <= 1.0:
        raise NodeError(
            "slower_than_alone", grid=format_seconds(reply.estimate_s),
            alone=format_seconds(reply.alone_s),
        )  # fmt: skip


async def _plan_for(
    node: Node, message: JobSubmit, graph: Graph, executor: str, local: Fleet, grid: Fleet
) -> Choice:
    fleet = local if executor == "local" else grid
    memory = fleet.memory_bytes
    if executor == "grid" and message.constraints.min_memory_bytes:
        memory = max(memory, message.constraints.min_memory_bytes)
    limits = Limits(memory, fleet.threads, min(fleet.slot_bytes, memory), _ordered(message, graph))

    def make() -> tuple[Plan, int]:
        made = node.planner.make(graph, limits, message.block_axis)
        return made, total_bytes_moved(made)

    plan, moved = await asyncio.to_thread(make)
    summary = plan.summary()
    if summary.memory_bound_bytes > memory:
        raise NodeError(
            "job_too_large", needed=format_bytes(summary.memory_bound_bytes),
            available=format_bytes(memory), executor=executor,
        )  # fmt: skip
    write = await asyncio.to_thread(node.disk.bytes_per_s, summary.bytes_out)
    startup_s = node.settings.grid_startup_s
    found = estimate.times(summary, moved, executor, local, grid, startup_s, write)
    held = memory if executor == "local" else 2 * summary.memory_bound_bytes
    reply = estimate.as_reply(summary, found, executor, held)
    return Choice(executor, limits, plan, reply, moved)


def _ordered(message: JobSubmit, graph: Graph) -> bool:
    """Does the class fix the order of sums of floats?"""
    floats = any(spec.dtype in FLOATS for spec in graph.specs())
    return message.numeric_class == "exact" and floats
