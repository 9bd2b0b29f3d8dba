"""Which way of planning a graph takes: a product in tiles, else the whole graph in blocks.

Owns: that choice. Pure. `blockwise.py` and what it needs are being built beside this file; the
product planner is `tiles.py`.
"""

from __future__ import annotations

from gpugoblin.graph.ir import Graph
from gpugoblin.plan.blockwise import plan_blocks
from gpugoblin.plan.spec import Limits, Plan
from gpugoblin.plan.tiles import plan_product
from gpugoblin.verify.forms import product_form

__all__ = ["plan"]


def plan(graph: Graph, limits: Limits, *, block_axis: int | None = None) -> Plan:
    """The plan of `graph` under `limits`.

    Args:
        block_axis: axis of every output along which the researcher wants it cut (`map_blocks`).

    Raises:
        PlanError: naming the operator and the figure when no cut fits.
    """
    if block_axis is None and product_form(graph) is not None:
        return plan_product(graph, limits)
    return plan_blocks(graph, limits, block_axis=block_axis)
