"""Small programs for the samples of operators with bodies. Owns: making them by hand, as builders
need the whole catalog and these are made while it is read."""

from __future__ import annotations

from collections.abc import Sequence

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.program import Constant, Graph, Node
from gpugoblin.catalog.spec import Array, TensorSpec

__all__ = ["apply_formula", "body", "one_formula"]


def apply_formula(function: str, operands: Sequence[int], result: TensorSpec) -> Node:
    """One scalar function."""
    return Node("formula", 1, (("tree", call_formula(function)),), tuple(operands), (result,))


def body(
    inputs: Sequence[TensorSpec],
    nodes: Sequence[Node],
    outputs: Sequence[int],
    constants: Sequence[Array] = (),
) -> Graph:
    kept = tuple(
        Constant(TensorSpec(str(array.dtype), array.shape), array.tobytes()) for array in constants
    )
    return Graph(tuple(inputs), kept, tuple(nodes), tuple(outputs))


def one_formula(inputs: Sequence[TensorSpec], function: str, operands: Sequence[int]) -> Graph:
    """A program of one scalar function on operands of equal specs."""
    node = apply_formula(function, operands, inputs[operands[0]])
    return body(inputs, (node,), (len(inputs),))
