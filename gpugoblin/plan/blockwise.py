"""Whole graphs in blocks, by the operators' split rules.

Owns: the order of planning: products that are worth tasks of their own, then the outputs in groups
that share their work. Pure: the same graph and limits give the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.errors import PlanError
from gpugoblin.graph.cost import cost
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.graph.rewrite import expand_means
from gpugoblin.plan.blocks import BlockPlan
from gpugoblin.plan.epilogue import Product, lone, product_cut, products
from gpugoblin.plan.figures import measure, total, work
from gpugoblin.plan.fit import TILE_BYTES, TILE_FLOPS, Cut, fit
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.grouping import group_cut, may_join
from gpugoblin.plan.mapping import block_wants, require_independent
from gpugoblin.plan.single import SinglePlan, fits
from gpugoblin.plan.solve import Solution, solve
from gpugoblin.plan.spans import Loop
from gpugoblin.plan.spec import Limits, Plan
from gpugoblin.plan.stage import Want
from gpugoblin.plan.trees import combine_all, way_of_combining

__all__ = ["plan_along", "plan_blocks"]

_SPLIT_HELPS: Final = 1.5
"""A graph that fits as it is stays whole when cutting it costs this much more."""

_WEIGHED_OUTPUTS: Final = 6
"""Beyond this many outputs, those of one shape are made together without weighing it."""


def plan_along(graph: Graph, limits: Limits, axis: int) -> Plan:
    """The plan of a graph of which every output is cut along `axis` and no other.

    Raises:
        PlanError: `plan_block_axis` when the graph mixes positions; `plan_does_not_fit`,
            `plan_not_splittable` when not even one position fits.
    """
    flow = _flow(graph, limits)
    require_independent(flow, axis)
    extent = flow.graph.output_specs()[0].shape[axis]
    cut = Cut(block_wants(flow.graph, axis), (extent,), (extent,), (0,))
    return _plan(graph, solve(flow, cut, {}, 0, limits))


def plan_blocks(graph: Graph, limits: Limits) -> Plan:
    """The plan of any graph; one task when everything fits and cutting would not help.

    A composite is kept as one node, for which a backend may have a kernel, unless that cannot be
    cut and its steps can: attention for one head is cut between its products by queries.

    Raises:
        PlanError: `plan_does_not_fit`, `plan_not_splittable`.
    """
    try:
        return _planned(graph, limits)
    except PlanError:
        steps = expand(graph).graph
        if steps is graph:
            raise
        return _planned(steps, limits)


def _flow(graph: Graph, limits: Limits) -> Flow:
    return Flow.of(graph if limits.ordered else expand_means(graph), ordered=limits.ordered)


def _planned(graph: Graph, limits: Limits) -> Plan:
    single = fits(graph, limits)
    if single and bound(graph) <= TILE_BYTES and cost(graph).flops <= TILE_FLOPS:
        return SinglePlan(graph)
    flow = _flow(graph, limits)
    try:
        found = _cheapest(flow, limits)
    except PlanError:
        if single:
            return SinglePlan(graph)
        raise
    whole = work(total([(1, measure(graph, (), 1))]))
    if single and (found.count == 1 or found.work > _SPLIT_HELPS * whole):
        return SinglePlan(graph)
    return _plan(graph, found)


def _plan(graph: Graph, found: Solution) -> BlockPlan:
    return BlockPlan(graph, [(one.stage, one.totals) for one in found.stages])


def _cheapest(flow: Flow, limits: Limits) -> Solution:
    """Everything fused, or with products split off, whichever is less of a burden."""
    failed: PlanError | None = None
    plans: list[Solution] = []
    try:
        plans.append(_outputs(flow, Solution(), limits, ()))
    except PlanError as error:
        failed = error
    try:
        split = _with_products(flow, limits)
        if split is not None:
            plans.append(split)
    except PlanError as error:
        failed = failed or error
    if not plans and failed is not None:
        raise failed
    return min(plans, key=lambda one: one.burden)


def _with_products(flow: Flow, limits: Limits) -> Solution | None:
    found, done = Solution(), list[int]()
    for product in products(flow):
        outputs = [n for n, value in enumerate(flow.graph.outputs) if value == product.value]
        made = _product(flow, product, found, limits, outputs)
        if made is not None:
            found = made
            done += outputs
    return _outputs(flow, found, limits, done) if found.stages else None


def _product(
    flow: Flow, product: Product, found: Solution, limits: Limits, outputs: Sequence[int]
) -> Solution | None:
    """Adds the stages that prepare a product's operands, and its own; None when they do not fit."""
    alone = lone(flow, product)
    chosen = fit(alone, product_cut(alone, alone.graph.outputs[0], (None,)), {}, 0, limits)
    if not chosen.good:
        return None
    loops = chosen.stage.loops
    for number, operand in enumerate(product.operands):
        if operand in product.prepared and operand not in found.held:
            # The operand's blobs are just what the tiles of the product read.
            axes = next(
                tuple(span.loop for span in instance.spans)
                for instance in chosen.stage.program.instances
                if instance.kind == "input" and instance.number == number
            )
            prepared = _prepared(flow, operand, axes, loops, found, limits)
            if prepared is None:
                return None
            found = prepared
    partial = any(loops[loop].count > 1 for _, loop in chosen.stage.wants[0].sums)
    read = any(product.value in node.inputs for node in flow.graph.nodes)
    places = (*((None,) if read else ()), *outputs)
    cut = product_cut(flow, product.value, (None,) if partial else places)
    made = fit(
        flow, Cut(cut.wants, cut.extents, cut.steps, (), fixed=loops), found.held, found.count,
        limits,
    )  # fmt: skip
    if not made.good:
        return None
    parts = made.stage.held(cut.wants[0], way_of_combining(flow, product.value))
    first = found.count + made.stage.count
    tree = combine_all(flow, product.value, parts, first, limits, 1, places)
    if tree is None:
        return None
    return found.then(Solution((made, *tree[0]), {product.value: tree[1]}))


def _prepared(
    flow: Flow,
    operand: int,
    axes: Sequence[int],
    loops: Sequence[Loop],
    found: Solution,
    limits: Limits,
) -> Solution | None:
    """Adds the stages that make an operand, cut by the loops that `axes` names (-1: whole)."""
    used = [loop for loop in axes if loop >= 0]
    want = Want(operand, tuple(used.index(at) if at >= 0 else None for at in axes))
    own = tuple(loops[loop] for loop in used)
    extents = tuple(loop.extent for loop in own)
    cut = Cut((want,), extents, extents, (), fixed=own)
    try:
        made = solve(flow, cut, found.held, found.count, limits)
    except PlanError:
        return None
    held = made.stages[-1].stage.held(want)
    return found.then(made).then(Solution((), {operand: held}))


def _outputs(flow: Flow, found: Solution, limits: Limits, done: Sequence[int]) -> Solution:
    """Adds the stages of all outputs but those that are `done`."""
    groups: list[list[int]] = []
    for output in range(len(flow.graph.outputs)):
        if output in done:
            continue
        for group in groups:
            if may_join(flow, group, output) and _together(flow, found, limits, group, output):
                group.append(output)
                break
        else:
            groups.append([output])
    for group in groups:
        found = found.then(_group(flow, found, limits, group))
    return found


def _group(flow: Flow, found: Solution, limits: Limits, group: Sequence[int]) -> Solution:
    return solve(flow, group_cut(flow, group), found.held, found.count, limits)


def _together(
    flow: Flow, found: Solution, limits: Limits, group: Sequence[int], output: int
) -> bool:
    """Whether making an output beside a group is less of a burden than making it alone."""
    specs = flow.graph.output_specs()
    if len(flow.graph.outputs) > _WEIGHED_OUTPUTS:
        return specs[group[0]].shape == specs[output].shape
    try:
        joined = _group(flow, found, limits, [*group, output]).burden
    except PlanError:
        return False
    apart = _group(flow, found, limits, group).burden + _group(flow, found, limits, [output]).burden
    return joined <= apart
