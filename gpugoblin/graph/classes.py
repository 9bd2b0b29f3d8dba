"""Numeric classes as a rewriting: what `tf32`, `bfloat16`, `float16` and `int8` mean.

Owns: the rounding of the operands of products and convolutions. The lab node rewrites a job's graph
once, before it plans, so that the class is part of what the graph means: planner, checks and
backends see float32 operators on operands that are already rounded, and the bounds of class
`float32` hold.

* `tf32`, `bfloat16`, `float16`: each operand is rounded to nearest, ties to even, to 10, 7 or 10
  bits behind the point (float16 with its narrow range), and products are added in float32.
* `int8`: each row of the left operand and each column of the right one (each output's kernel and
  each example of a convolution) is divided by 1/127 of its largest magnitude and rounded to an
  integer; products are added in int32 (in float32 where no sum can reach 2^24, which is the same),
  and the result is multiplied by both scales.
* `exact`, `float32`: nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import call
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import Builder
from gpugoblin.catalog.terms import select, term
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph, Node
from gpugoblin.graph.rewrite import rebuild

__all__ = ["CLASSES", "in_class"]

CLASSES: Final = ("exact", "float32", "tf32", "bfloat16", "float16", "int8")

_ROUNDING: Final = {
    "tf32": "round_tf32",
    "bfloat16": "round_bfloat16",
    "float16": "round_float16",
}
_PRODUCTS: Final = ("matmul", "conv")
_LEVELS: Final = 127.0


def in_class(graph: Graph, numeric_class: str) -> Graph:
    """The graph with the operands of float32 products and convolutions rounded as the class says.

    Raises:
        ValueError: for a class that is not in `CLASSES`.
        GraphError: over_limit, when rounding makes the graph too large.
    """
    if numeric_class not in CLASSES:
        raise ValueError(f"the numeric class {numeric_class!r} is unknown")
    if numeric_class in ("exact", "float32"):
        return graph
    whole = expand(graph).graph
    if not any(node.operator in _PRODUCTS for node in whole.nodes):
        return graph

    def replace(
        builder: GraphBuilder, node: Node, inputs: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        if node.operator not in _PRODUCTS or builder.spec(inputs[0]).dtype != "float32":
            return None
        if numeric_class == "int8":
            return (_quantized(builder, node, inputs),)
        tree = call_formula(_ROUNDING[numeric_class])
        rounded = tuple(builder.add("formula", [value], tree=tree) for value in inputs)
        return builder.apply(node.operator, node.version, rounded, dict(node.attributes))

    return rebuild(whole, replace)


def _quantized(builder: GraphBuilder, node: Node, inputs: Sequence[int]) -> int:
    left, right = inputs
    if node.operator == "conv":
        rank = builder.spec(left).rank
        axes = tuple(range(1, rank))
        small, scale = _levels(builder, left, axes)
        kernel, weights = _levels(builder, right, axes)
        found = _summed(builder, node, small, kernel)
        by_output = builder.add("permute", [weights], axes=(1, 0, *range(2, rank)))
        return call(builder, "mul", call(builder, "mul", found, scale), by_output)
    rank = builder.spec(left).rank
    turned = node.attrs["transpose_a"], node.attrs["transpose_b"]
    small, rows = _levels(builder, left, (rank - 2 if turned[0] else rank - 1,))
    other, columns = _levels(builder, right, (rank - 1 if turned[1] else rank - 2,))
    if turned[0]:
        rows = _swapped(builder, rows)
    if turned[1]:
        columns = _swapped(builder, columns)
    whole = [builder.add("cast", [value], dtype="int32") for value in (small, other)]
    product = builder.apply("matmul", node.version, tuple(whole), dict(node.attributes))[0]
    found = builder.add("cast", [product], dtype="float32")
    return call(builder, "mul", call(builder, "mul", found, rows), columns)


def _summed(builder: GraphBuilder, node: Node, small: int, kernel: int) -> int:
    """The convolution of whole numbers, as float32. Where no sum can reach 2^24 float32 has it
    exactly, in any order; else it is made in int32."""
    terms = math.prod(builder.spec(kernel).shape[1:])
    if terms * _LEVELS**2 < 2**24:
        return builder.apply("conv", node.version, (small, kernel), dict(node.attributes))[0]
    whole = tuple(builder.add("cast", [value], dtype="int32") for value in (small, kernel))
    product = builder.apply("conv", node.version, whole, dict(node.attributes))[0]
    return builder.add("cast", [product], dtype="float32")


def _swapped(builder: Builder, value: int) -> int:
    rank = builder.spec(value).rank
    axes = (*range(rank - 2), rank - 1, rank - 2)
    return builder.add("permute", [value], axes=axes)


def _levels(builder: Builder, value: int, axes: tuple[int, ...]) -> tuple[int, int]:
    """Whole numbers from -127 to 127, in float32, and the scale along the axes that stay."""
    size = call(builder, "abs", value)
    if any(builder.spec(value).shape[axis] == 0 for axis in axes):
        largest = builder.add("reduce", [size], function="sum", axes=axes, keepdims=True)
    else:
        largest = builder.add("reduce", [size], function="max", axes=axes, keepdims=True)
    trees = FormulaBuilder()
    most = term(trees, trees.input(0))
    scale = select(most > 0.0, most * (1.0 / _LEVELS), 1.0)
    step = builder.add("formula", [largest], tree=trees.build(scale.node))
    trees = FormulaBuilder()
    share = term(trees, trees.input(0)) / term(trees, trees.input(1))
    level = share.call("round").call("max", -_LEVELS).call("min", _LEVELS)
    return builder.add("formula", [value, step], tree=trees.build(level.node)), step
