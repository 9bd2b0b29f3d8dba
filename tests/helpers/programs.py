"""Graphs that researchers write, small or large, for tests of planning."""

from __future__ import annotations

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph

__all__ = [
    "chain",
    "covariance",
    "elementwise",
    "epilogue",
    "float32",
    "gram",
    "layers",
    "neighbors",
    "reduction",
    "softmax",
    "squares",
    "variance",
]


def float32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def elementwise(builder: GraphBuilder, function: str, *values: int) -> int:
    return builder.add("formula", values, tree=call_formula(function))


def chain(*shape: int) -> Graph:
    """tanh(x * x) - x, as three applications."""
    builder = GraphBuilder()
    x = builder.input(float32(*shape))
    square = elementwise(builder, "mul", x, x)
    return builder.build([elementwise(builder, "sub", elementwise(builder, "tanh", square), x)])


def reduction(function: str, axes: tuple[int, ...], *shape: int, dtype: str = "float32") -> Graph:
    builder = GraphBuilder()
    x = builder.input(TensorSpec(dtype, shape))
    return builder.build([builder.add("reduce", [x], axes=axes, function=function)])


def softmax(axis: int, *shape: int) -> Graph:
    builder = GraphBuilder()
    x = builder.input(float32(*shape))
    top = builder.add("reduce", [x], axes=(axis,), function="max", keepdims=True)
    power = elementwise(builder, "exp", elementwise(builder, "sub", x, top))
    total = builder.add("reduce", [power], axes=(axis,), function="sum", keepdims=True)
    return builder.build([elementwise(builder, "div", power, total)])


def variance(axes: tuple[int, ...], *shape: int) -> Graph:
    builder = GraphBuilder()
    x = builder.input(float32(*shape))
    mean = builder.add("reduce", [x], axes=axes, function="mean", keepdims=True)
    away = elementwise(builder, "sub", x, mean)
    square = elementwise(builder, "mul", away, away)
    return builder.build([builder.add("reduce", [square], axes=axes, function="mean")])


def squares() -> Formula:
    """x + y - 2 z: squared distances from squared lengths and products."""
    build = FormulaBuilder()
    twice = build.call("mul", build.const("float32", 2.0), build.input(2))
    return build.build(build.call("sub", build.call("add", build.input(0), build.input(1)), twice))


def neighbors(count: int, width: int, k: int) -> Graph:
    """Distances and indices of the `k` rows next to each row."""
    builder = GraphBuilder()
    x = builder.input(float32(count, width))
    length = builder.add("reduce", [elementwise(builder, "mul", x, x)], axes=(1,), function="sum")
    products = builder.add("matmul", [x, x], transpose_b=True)
    rows = builder.add("reshape", [length], shape=(count, 1))
    columns = builder.add("reshape", [length], shape=(1, count))
    distance = builder.add("formula", [rows, columns, products], tree=squares())
    return builder.build(builder.add_many("topk", [distance], axis=1, k=k, largest=False))


def epilogue(rows: int, inner: int, columns: int) -> Graph:
    """tanh(x @ w + b)."""
    builder = GraphBuilder()
    x, w = builder.input(float32(rows, inner)), builder.input(float32(inner, columns))
    bias = builder.input(float32(columns))
    shifted = elementwise(builder, "add", builder.add("matmul", [x, w]), bias)
    return builder.build([elementwise(builder, "tanh", shifted)])


def layers(rows: int, inner: int, hidden: int, columns: int) -> Graph:
    """tanh(x @ w) @ v."""
    builder = GraphBuilder()
    x, w = builder.input(float32(rows, inner)), builder.input(float32(inner, hidden))
    v = builder.input(float32(hidden, columns))
    middle = elementwise(builder, "tanh", builder.add("matmul", [x, w]))
    return builder.build([builder.add("matmul", [middle, v])])


def covariance(rows: int, columns: int) -> Graph:
    """(x - mean).T @ (x - mean)."""
    builder = GraphBuilder()
    x = builder.input(float32(rows, columns))
    mean = builder.add("reduce", [x], axes=(0,), function="mean", keepdims=True)
    away = elementwise(builder, "sub", x, mean)
    return builder.build([builder.add("matmul", [away, away], transpose_a=True)])


def gram(rows: int, columns: int) -> Graph:
    """tanh(x @ x.T)."""
    builder = GraphBuilder()
    x = builder.input(float32(rows, columns))
    return builder.build(
        [elementwise(builder, "tanh", builder.add("matmul", [x, x], transpose_b=True))]
    )
