"""The planner: which kind of plan a graph gets.

Owns: the choice. The plans themselves are in `tiles.py` (products over whole arrays), `algebra.py`
(factorizations that no engine holds) and `blockwise.py` (everything else). Pure: the same graph
and limits give the same plan.
"""

from __future__ import annotations

from gpugoblin.graph.ir import Graph
from gpugoblin.plan.algebra import needs_algebra, plan_algebra
from gpugoblin.plan.blockwise import plan_along, plan_blocks
from gpugoblin.plan.single import SinglePlan, fits
from gpugoblin.plan.spec import Limits, Plan
from gpugoblin.plan.tiles import plan_product
from gpugoblin.verify.forms import product_form

__all__ = ["plan"]


def plan(graph: Graph, limits: Limits, *, block_axis: int | None = None) -> Plan:
    """The plan of a graph over whole arrays.

    Args:
        limits: what one engine offers.
        block_axis: cut the outputs along this axis only (`gg.map_blocks`).

    Raises:
        PlanError: `plan_does_not_fit`, `plan_not_splittable`, `plan_block_axis`.
    """
    if limits.ordered and fits(graph, limits):
        return SinglePlan(graph)
    if block_axis is not None:
        return plan_along(graph, limits, block_axis)
    if product_form(graph) is not None and not limits.ordered:
        return plan_product(graph, limits)
    if needs_algebra(graph, limits) and not limits.ordered:
        found = plan_algebra(graph, limits)
        if found is not None:
            return found
    return plan_blocks(graph, limits)
