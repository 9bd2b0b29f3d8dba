"""The planner: which kind of plan a graph gets.

Owns: the choice. The plans themselves are in `tiles.py` (products), `single.py` (what fits as it
is) and `blockwise.py` (everything else). Pure: the same graph and limits give the same plan.
"""

from __future__ import annotations

from gpugoblin.errors import PlanError
from gpugoblin.graph.ir import Graph
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
    if product_form(graph) is not None and block_axis is None:
        return plan_product(graph, limits)
    if fits(graph, limits):
        return SinglePlan(graph)
    raise PlanError(
        "plan_not_splittable",
        operator="the graph",
        output=", ".join(map(str, graph.output_specs())),
        needed_bytes=0,
        reason="it is no product",
        limit_bytes=limits.memory_bytes,
    )
