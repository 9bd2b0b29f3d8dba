"""What a card is measured on: graphs that do one thing again and again inside the card.

Owns: the graphs. Their input is a key of random numbers and their output is one number, so that
what is timed is not the way to the card: the time of one step is the difference between a graph of
many steps and one of few.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.classes import in_class
from gpugoblin.graph.ir import Graph

__all__ = ["INPUT_BYTES", "OUTPUT_BYTES", "passes", "products"]

INPUT_BYTES: Final = 16
OUTPUT_BYTES: Final = 4


def products(size: int, numeric_class: str, steps: int) -> Graph:
    """`steps` products of float32 matrices [size, size], each of the last result, as a job of the
    class has them. Elements stay near one in size."""
    builder = GraphBuilder()
    key = builder.input(TensorSpec("int64", (2,)))
    share = builder.add("random", [key], function="uniform", shape=(size, size))
    tree = FormulaBuilder()
    half = tree.call("sub", tree.input(0), tree.const("float32", 0.5))
    scale = tree.const("float32", (12.0 / size) ** 0.5)
    matrix = builder.add("formula", [share], tree=tree.build(tree.call("mul", half, scale)))
    result = matrix
    for _ in range(steps):
        result = builder.add("matmul", [result, matrix])
    return in_class(_summed(builder, result, (0, 1)), numeric_class)


def passes(count: int, steps: int) -> Graph:
    """`steps` kernels, each of which reads and writes a float32 tensor of `count` elements, an even
    number. Formulas with another shape between them, which moves nothing, are not joined."""
    builder = GraphBuilder()
    key = builder.input(TensorSpec("int64", (2,)))
    value = builder.add("random", [key], function="uniform", shape=(count,))
    tree = FormulaBuilder()
    shrunk = tree.call("mul", tree.input(0), tree.const("float32", 0.5))
    step = tree.build(tree.call("add", shrunk, tree.const("float32", 0.25)))
    for number in range(steps):
        value = builder.add("formula", [value], tree=step)
        shape = (count,) if number % 2 else (2, count // 2)
        value = builder.add("reshape", [value], shape=shape)
    flat = builder.add("reshape", [value], shape=(1, count))
    return _summed(builder, flat, (0, 1))


def _summed(builder: GraphBuilder, value: int, axes: tuple[int, ...]) -> Graph:
    return builder.build([builder.add("reduce", [value], function="sum", axes=axes)])
