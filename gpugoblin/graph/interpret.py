"""The reference interpreter: the living definition of what a graph means.

Owns: running each operator's reference in order. Slow and plain on purpose; engines compute, and
are compared with this. Must not: grow special cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from gpugoblin.catalog import registry
from gpugoblin.catalog.spec import DTYPES, Array, Reference, TensorSpec
from gpugoblin.catalog.widening import widen
from gpugoblin.errors import GraphError
from gpugoblin.graph.check import check
from gpugoblin.graph.ir import Graph, Node

__all__ = ["interpret", "interpret_wide", "last_uses", "require_inputs", "run_nodes"]


def interpret(
    graph: Graph, inputs: Sequence[Array], others: Mapping[str, Reference] = MappingProxyType({})
) -> tuple[Array, ...]:
    """The outputs of the graph on `inputs`: C-contiguous, in the declared dtypes and shapes.

    Floating operators compute in float64 and round their results to their dtypes.

    Args:
        others: what computes the operators of these names in the place of their references.

    Raises:
        GraphError: as `check`; graph_inputs_mismatch; index_out_of_range.
    """
    check(graph)
    require_inputs(graph, inputs)
    values: dict[int, Array] = {}
    for _ in run_nodes(graph, inputs, values, others=others):
        pass
    return tuple(np.array(values[value], order="C") for value in graph.outputs)


def interpret_wide(graph: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs with nothing rounded to float32 on the way: what gradients are checked with.

    Args:
        inputs: float64 for every input that is float32 in the graph.

    Returns:
        float64 for every output that is float32 in the graph.

    Raises:
        GraphError: as `interpret`.
    """
    check(graph)
    narrow = list(inputs)
    for place, spec in enumerate(graph.inputs[: len(narrow)]):
        if spec.dtype == "float32" and narrow[place].dtype == np.float64:
            narrow[place] = narrow[place].astype(np.float32)
    require_inputs(graph, narrow)
    values: dict[int, Array] = {}
    for _ in run_nodes(graph, inputs, values, wide=True):
        pass
    return tuple(np.array(values[value], order="C") for value in graph.outputs)


def require_inputs(graph: Graph, inputs: Sequence[Array]) -> None:
    """Requires one array for each input, with exactly its dtype and shape.

    Raises:
        GraphError: graph_inputs_mismatch.
    """
    for index in range(max(len(graph.inputs), len(inputs))):
        expected = str(graph.inputs[index]) if index < len(graph.inputs) else "absent"
        got = "absent"
        if index < len(inputs):
            array = inputs[index]
            got = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            if index < len(graph.inputs):
                spec = graph.inputs[index]
                if array.dtype == DTYPES[spec.dtype] and array.shape == spec.shape:
                    continue
        raise GraphError("graph_inputs_mismatch", index=index, got=got, expected=expected)


def run_nodes(
    graph: Graph,
    inputs: Sequence[Array],
    values: dict[int, Array],
    *,
    wide: bool = False,
    others: Mapping[str, Reference] = MappingProxyType({}),
) -> Iterator[tuple[int, Node]]:
    """Runs the nodes one by one into `values`; yields each (first value, node) once it has run.

    Values are dropped after the step that follows their last use, so that a consumer of this
    iterator may still read a node's operands.

    Args:
        wide: keep float32 values in float64.
        others: as for `interpret`.
    """

    def kept(array: Array, spec: TensorSpec) -> Array:
        return widen(array, spec.dtype) if wide else array

    values.update(enumerate(map(kept, inputs, graph.inputs)))
    base = len(graph.inputs)
    values.update(
        (base + place, kept(constant.array(), constant.spec))
        for place, constant in enumerate(graph.constants)
    )
    last = last_uses(graph)
    for step, (first, node) in enumerate(graph.numbered_nodes()):
        operator = registry.get(node.operator, node.version)
        operands = [values[value] for value in node.inputs]
        run = others.get(node.operator, operator.reference)
        for output, result in enumerate(run(operands, node.attrs)):
            values[first + output] = kept(result, node.outputs[output])
        yield first, node
        for value in (*node.inputs, *range(first, first + len(node.outputs))):
            if last.get(value, step) <= step:
                values.pop(value, None)


def last_uses(graph: Graph) -> dict[int, int]:
    """For each value that is read, the step of the node that reads it last; outputs of the graph
    are read after the last step."""
    last = {value: step for step, node in enumerate(graph.nodes) for value in node.inputs}
    last.update((value, len(graph.nodes)) for value in graph.outputs)
    return last
