"""How many local steps a training's rounds should make on whoever would compute them now.

Owns: what is measured or assumed of them, and what a shard carries. Must not: keep anything; the
choice travels back to the client and comes again with the training, which keeps it.
"""

from __future__ import annotations

import asyncio

from gpugoblin.errors import GraphError
from gpugoblin.graph import cost
from gpugoblin.graph.check import LIMITS
from gpugoblin.graph.dtypes import in_class, needs_of
from gpugoblin.graph.memory import bound
from gpugoblin.plan.local_steps import Pace, choose_steps, utilisation
from gpugoblin.plan.microbatches import micro_batch
from gpugoblin.wire.messages.training import ChosenSteps, LocalStepsAsk
from server_stub.node.estimate import GUESSED_FLOPS_PER_S
from server_stub.node.executors.base import Fleet
from server_stub.node.node import Node
from server_stub.node.state import links
from server_stub.node.state.links import ASSUMED, Link
from server_stub.node.state.rates import CLAIM_BYTES_PER_S
from server_stub.node.training import building, submission
from server_stub.node.training.local_rounds import local_graph

__all__ = ["choose", "pace"]


async def pace(node: Node, owner: str, message: LocalStepsAsk) -> ChosenSteps:
    """The local steps for this training, by what is known now.

    Raises:
        GraphError, PlanError, NodeError: what is wrong with it, by code.
    """
    graph = building.graph_of(message.graph, message.numeric_class)
    needs = in_class(needs_of(graph).mask(), message.numeric_class)
    executor, fleet = await submission.choose(node, message.executor, needs, owner)
    if executor == "grid":
        link = await node.store.read(links.measured) or ASSUMED
    else:
        rate = node.settings.ray_bytes_per_s if executor == "ray" else CLAIM_BYTES_PER_S
        link = Link(0, 0.0, rate, 0.0)
    return await asyncio.to_thread(choose, message, fleet, link)


def choose(message: LocalStepsAsk, fleet: Fleet, link: Link) -> ChosenSteps:
    """The local steps over a link on a fleet. Raises as `pace`."""
    loss = building.graph_of(message.graph, message.numeric_class)
    micro = micro_batch(loss, building.slots_of(message.slots), message.updates)
    stepping = building.alone(message, micro)
    first = len(micro.carried)
    one = local_graph(stepping, 1)
    # The number of the step, the examples and the key are those of every step.
    each = sum(spec.nbytes for spec in one.inputs[first : first + 1 + micro.data + micro.keyed])
    fixed = sum(spec.nbytes for spec in (*one.inputs, *one.output_specs())) - each
    rate = link.flops_per_s or fleet.flops_per_s / max(1, fleet.engines) or GUESSED_FLOPS_PER_S
    found = Pace(cost.cost(one).flops / rate, link.latency_s, link.bytes_per_s, fixed, each)

    def fits(steps: int) -> bool:
        try:
            graph = local_graph(stepping, steps)
        except GraphError as error:
            if error.code != "over_limit":
                raise
            return False
        largest = max(spec.nbytes for spec in (*graph.inputs, *graph.output_specs()))
        return bound(graph) <= fleet.memory_bytes and largest <= fleet.slot_bytes

    most = min(message.examples // (message.micro * message.shards), LIMITS.nodes // len(one.nodes))
    steps = choose_steps(found, message.steps, most, fits)
    return ChosenSteps(
        steps, link.devices, found.step_s, found.latency_s, found.bytes_per_s, fixed, each,
        utilisation(found, steps),
    )  # fmt: skip
