"""The samples of the catalog in float64: what is float32 in a sample, with its programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.formula_build import const_bits, const_value
from gpugoblin.catalog.program import Constant, Graph, Node
from gpugoblin.catalog.spec import Array, AttrValue, Sample, TensorSpec

__all__ = ["doubled", "has_floats"]


def has_floats(sample: Sample) -> bool:
    """Is any input float32?"""
    return any(a.dtype == np.float32 for a in sample.inputs(np.random.default_rng(0)))


def doubled(sample: Sample) -> Sample:
    """The sample with float64 in the place of float32; the numbers of its inputs have more digits
    than float32 has."""

    def inputs(generator: np.random.Generator) -> list[Array]:
        return [_digits(array) for array in sample.inputs(generator)]

    attributes = {name: _attribute(value) for name, value in sample.attributes.items()}
    return Sample(f"{sample.name}-float64", inputs, attributes)


def _digits(array: Array) -> Array:
    if array.dtype != np.float32:
        return array
    wide = array.astype(np.float64)
    # The layout of the sample stays: `wide` has the strides of the operand's order.
    return np.asarray(wide * (1.0 + 2.0**-30))


def _attribute(value: AttrValue) -> AttrValue:
    if isinstance(value, Formula):
        return Formula(tuple(map(_formula_node, value.nodes)))
    return _program(value) if isinstance(value, Graph) else value


def _formula_node(node: FormulaNode) -> FormulaNode:
    if node.dtype != "float32":
        return node
    if node.function == "const":
        number = float(const_value(node))
        return replace(node, dtype="float64", value=const_bits("float64", number))
    return replace(node, dtype="float64")


def _spec(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype="float64") if spec.dtype == "float32" else spec


def _program(graph: Graph) -> Graph:
    constants = []
    for constant in graph.constants:
        spec = _spec(constant.spec)
        constants.append(Constant(spec, cast_array(constant.array(), spec.dtype).tobytes()))
    nodes = tuple(
        Node(
            node.operator,
            node.version,
            tuple((name, _attribute(value)) for name, value in node.attributes),
            node.inputs,
            tuple(map(_spec, node.outputs)),
        )
        for node in graph.nodes
    )
    return Graph(tuple(map(_spec, graph.inputs)), tuple(constants), nodes, graph.outputs)
