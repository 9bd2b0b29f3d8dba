"""An honest evaluation of a graph in float32 with plain NumPy, written apart from the reference.

Sums are made in a random order, so that two seeds give two honest results of class `float32`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpugoblin.catalog import registry
from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import const_value
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import Array, Attributes
from gpugoblin.graph.ir import Graph

__all__ = ["evaluate_float32"]


def evaluate_float32(graph: Graph, inputs: Sequence[Array], seed: int = 0) -> list[Array]:
    """The outputs, computed in float32 with sums in an order drawn from `seed`."""
    generator = np.random.default_rng(seed)
    values: list[Array] = [*inputs, *(constant.array() for constant in graph.constants)]
    for node in graph.nodes:
        operands = [values[value] for value in node.inputs]
        with np.errstate(all="ignore"):
            values.extend(_apply(node.operator, node.attrs, operands, generator))
    return [np.array(values[value], order="C") for value in graph.outputs]


def _apply(
    operator: str, attributes: Attributes, operands: Sequence[Array], generator: np.random.Generator
) -> Sequence[Array]:
    if operator == "formula":
        tree = attributes["tree"]
        assert isinstance(tree, Formula)
        return [_formula(tree, operands)]
    if operator == "matmul" and operands[0].dtype == np.float32:
        a, b = operands
        a = np.swapaxes(a, -1, -2) if attributes["transpose_a"] else a
        b = np.swapaxes(b, -1, -2) if attributes["transpose_b"] else b
        order = generator.permutation(a.shape[-1])
        return [np.matmul(a[..., order], b[..., order, :])]
    if operator == "reduce" and attributes["function"] in ("sum", "mean", "prod"):
        return [_reduce(attributes, operands[0], generator)]
    return registry.get(operator).reference(operands, attributes)


def _reduce(attributes: Attributes, array: Array, generator: np.random.Generator) -> Array:
    axes = attributes["axes"]
    assert isinstance(axes, tuple)
    count = 1
    for axis in axes:
        array = np.take(array, generator.permutation(array.shape[axis]), axis=axis)
        count *= array.shape[axis]
    fold = np.multiply if attributes["function"] == "prod" else np.add
    result: Array = array
    for axis in reversed(axes):
        result = fold.reduce(result, axis=axis, keepdims=True, dtype=array.dtype)
    if attributes["function"] == "mean":
        result = result / np.float32(count)
    if not attributes["keepdims"]:
        result = np.squeeze(result, axis=axes)
    return np.asarray(result).astype(array.dtype)


def _formula(tree: Formula, operands: Sequence[Array]) -> Array:
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    values: list[Array] = []
    for node in tree.nodes:
        found = [values[operand] for operand in node.operands]
        match node.function:
            case "input":
                values.append(operands[node.value])
            case "const":
                values.append(const_value(node))
            case "cast":
                values.append(np.asarray(cast_array(found[0], node.dtype)))
            case _:
                values.append(np.asarray(SCALARS[node.function].evaluate(*found)))
    return np.array(np.broadcast_to(values[-1], shape))
