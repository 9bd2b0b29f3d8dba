"""Rewrites of graphs. Owns: walking a graph into a builder, and the rewrites themselves.

Every rewrite goes through the builder, so that its result is pruned, numbered and checked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph, Node

__all__ = ["Replace", "expand_means", "rebuild"]

Replace = Callable[[GraphBuilder, Node, tuple[int, ...]], tuple[int, ...] | None]


def rebuild(graph: Graph, replace: Replace) -> Graph:
    """The graph with some nodes replaced.

    Args:
        replace: gets the builder, a node, and the builder's numbers of its operands; returns the
            numbers of values that stand for the node's outputs, or None to keep the node.

    Raises:
        GraphError: when a replacement is malformed.
    """
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in graph.inputs]
    values.extend(builder.constant(constant.array()) for constant in graph.constants)
    for node in graph.nodes:
        operands = tuple(values[value] for value in node.inputs)
        found = replace(builder, node, operands)
        if found is None:
            found = builder.apply(node.operator, node.version, operands, dict(node.attributes))
        values.extend(found)
    return builder.build([values[value] for value in graph.outputs])


def expand_means(graph: Graph) -> Graph:
    """Every mean becomes a sum divided by its count: a sum can be cut along the summed axes."""
    return rebuild(graph, _mean)


def _mean(builder: GraphBuilder, node: Node, operands: tuple[int, ...]) -> tuple[int, ...] | None:
    if node.operator != "reduce" or node.attrs["function"] != "mean":
        return None
    total = builder.apply("reduce", node.version, operands, {**node.attrs, "function": "sum"})
    spec, whole = builder.spec(total[0]), builder.spec(operands[0])
    axes = node.attrs["axes"]
    count = 1
    for axis in axes if isinstance(axes, tuple) else ():
        count *= whole.shape[axis]
    divisor = builder.constant(np.full((1,) * spec.rank, count, DTYPES[spec.dtype]))
    return (builder.add("formula", [total[0], divisor], tree=call_formula("div")),)
