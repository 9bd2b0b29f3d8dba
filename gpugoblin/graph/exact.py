"""The reference interpreter of class `exact`.

Owns: running a graph's primitives as `catalog/exact.py` defines them, and the question whether a
graph has the class. Every honest result of the class has the same bits as this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpugoblin.catalog.exact import canonical, evaluate_exact, has_exact
from gpugoblin.catalog.program import specs_within
from gpugoblin.catalog.spec import Array
from gpugoblin.graph.check import check
from gpugoblin.graph.expand import expand
from gpugoblin.graph.interpret import last_uses, require_inputs
from gpugoblin.graph.ir import Graph, Node

__all__ = ["interpret_exact", "not_exact"]


def not_exact(graph: Graph) -> str | None:
    """The first operator that keeps a graph out of class `exact`, or None where it has it."""
    expanded = expand(graph).graph
    specs = expanded.specs()
    floating = any(spec.dtype == "float32" for spec in specs_within(expanded))
    for node in expanded.nodes:
        if floating and node.bodies():
            return node.operator  # its body has floats, or might
        dtypes = [specs[value].dtype for value in node.inputs]
        dtypes += [spec.dtype for spec in node.outputs]
        if not has_exact(_key(node), node.attrs, dtypes):
            return node.operator
    return None


def interpret_exact(graph: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs of a graph for which `not_exact` is None, bit for bit.

    Raises:
        GraphError: as `interpret`.
    """
    check(graph)
    require_inputs(graph, inputs)
    graph = expand(graph).graph
    specs = graph.specs()
    values: dict[int, Array] = dict(enumerate(inputs))
    base = len(graph.inputs)
    values.update((base + n, constant.array()) for n, constant in enumerate(graph.constants))
    last = last_uses(graph)
    for step, (first, node) in enumerate(graph.numbered_nodes()):
        operands = [values[value] for value in node.inputs]
        floating = any(
            spec.dtype == "float32"
            for spec in (*node.outputs, *(specs[value] for value in node.inputs))
        )
        for place, result in enumerate(evaluate_exact(_key(node), operands, node.attrs, floating)):
            values[first + place] = result
        for value in node.inputs:
            if last.get(value, step) <= step:
                values.pop(value, None)
    return tuple(np.array(canonical(values[value]), order="C") for value in graph.outputs)


def _key(node: Node) -> str:
    return f"{node.operator}@{node.version}"
