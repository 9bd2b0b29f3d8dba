"""Hypothesis strategies for well-formed graphs and their inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph

__all__ = ["formulas", "graphs", "inputs_of", "shapes"]

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
full_shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
dtypes = st.sampled_from(["bool", "float32", "int32", "int64"])
"""Those that every operator below computes with."""


@st.composite
def formulas(draw: st.DrawFn, inputs: list[str]) -> object:
    """A tree over all inputs of the given dtypes."""
    builder = FormulaBuilder()
    nodes = [(builder.input(number), dtype) for number, dtype in enumerate(inputs)]
    pending = [node for node, _ in nodes]
    for _ in range(draw(st.integers(1, 6))):
        function = SCALARS[draw(st.sampled_from(sorted(SCALARS)))]
        picked = [draw(st.sampled_from(nodes)) for _ in range(function.arity)]
        result = function.dtype_rule([dtype for _, dtype in picked])
        if result is None:
            target = draw(dtypes)
            if target != picked[0][1]:
                nodes.append((builder.cast(picked[0][0], target), target))
            continue
        nodes.append((builder.call(function.name, *(node for node, _ in picked)), result))
    top, dtype = nodes[-1]
    top = top if dtype == "float32" else builder.cast(top, "float32")
    for node, (_, kind) in zip(pending, nodes, strict=False):
        term = node if kind == "float32" else builder.cast(node, "float32")
        if term != top:
            top = builder.call("add", top, builder.call("mul", term, builder.const("float32", 0.5)))
    return builder.build(top)


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 7) -> Graph:
    """A graph of up to `max_nodes` nodes over every operator, with 1 to 3 outputs."""
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", draw(full_shapes)))]
    values.extend(
        builder.input(TensorSpec(draw(dtypes), draw(shapes)))
        for _ in range(draw(st.integers(0, 2)))
    )
    if draw(st.booleans()):
        values.append(builder.constant(_array(draw, TensorSpec(draw(dtypes), draw(shapes)))))
    steps = draw(st.lists(st.sampled_from(_STEPS), min_size=max_nodes // 2, max_size=max_nodes))
    for step in steps:
        # Late values twice as likely: chains rather than stars.
        value = draw(st.sampled_from([*values, *values[-3:]]))
        values.extend(step(draw, builder, value, values))
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return builder.build([*outputs, values[-1]])


@st.composite
def inputs_of(draw: st.DrawFn, graph: Graph) -> list[Array]:
    """Arrays for the inputs of a graph, with special values among the floats."""
    return [_array(draw, spec) for spec in graph.inputs]


def _array(draw: st.DrawFn, spec: TensorSpec) -> Array:
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if spec.dtype == "bool":
        return np.asarray(generator.integers(0, 2, spec.shape) == 1)
    if spec.dtype == "float32":
        array = np.asarray(generator.standard_normal(spec.shape) * 3).astype(np.float32)
        if array.size and draw(st.integers(0, 3)) == 0:
            special = np.array([np.nan, np.inf, -np.inf, 0.0, 1e-40, 3e38], np.float32)
            array.flat[int(generator.integers(array.size))] = generator.choice(special)
        return array
    return np.asarray(generator.integers(-5, 6, spec.shape)).astype(DTYPES[spec.dtype])


Step = Callable[[st.DrawFn, GraphBuilder, int, list[int]], tuple[int, ...]]


def _formula(draw: st.DrawFn, builder: GraphBuilder, value: int, values: list[int]) -> tuple[int]:
    shape = builder.spec(value).shape
    others = [v for v in values if builder.spec(v).shape in (shape, (), (1,) * len(shape))]
    picked = [value, *draw(st.lists(st.sampled_from([value, *others]), max_size=2))]
    tree = draw(formulas([builder.spec(v).dtype for v in picked]))
    return (builder.add("formula", picked, tree=tree),)


def _matmul(
    draw: st.DrawFn, builder: GraphBuilder, value: int, values: list[int]
) -> tuple[int, ...]:
    spec = builder.spec(value)
    if spec.rank < 2 or spec.dtype == "bool":
        return ()
    turn = draw(st.booleans())
    return (builder.add("matmul", [value, value], transpose_a=turn, transpose_b=not turn),)


def _reduce(
    draw: st.DrawFn, builder: GraphBuilder, value: int, values: list[int]
) -> tuple[int, ...]:
    spec = builder.spec(value)
    axes = tuple(axis for axis in range(spec.rank) if draw(st.booleans()))
    full = all(spec.shape[axis] for axis in axes)
    names = ["any", "all"] if spec.dtype == "bool" else ["sum", "prod"]
    if spec.dtype == "float32":
        names.append("mean")
    if spec.dtype != "bool" and full:
        names.extend(["max", "min"])
    name, keep = draw(st.sampled_from(names)), draw(st.booleans())
    return (builder.add("reduce", [value], axes=axes, function=name, keepdims=keep),)


def _extreme(
    draw: st.DrawFn, builder: GraphBuilder, value: int, values: list[int]
) -> tuple[int, ...]:
    spec = builder.spec(value)
    axes = [axis for axis, extent in enumerate(spec.shape) if extent]
    if not axes:
        return ()
    axis = draw(st.sampled_from(axes))
    if spec.dtype == "bool" or draw(st.booleans()):
        function = draw(st.sampled_from(["argmax", "argmin"]))
        return (builder.add("reduce_arg", [value], axis=axis, function=function),)
    count = draw(st.integers(1, spec.shape[axis]))
    return builder.add_many("topk", [value], axis=axis, k=count, largest=draw(st.booleans()))


def _move(draw: st.DrawFn, builder: GraphBuilder, value: int, values: list[int]) -> tuple[int, ...]:
    spec = builder.spec(value)
    match draw(st.integers(0, 4)):
        case 0:
            return (builder.add("reshape", [value], shape=(spec.count, 1)),)
        case 1:
            axes = draw(st.permutations(range(spec.rank)))
            return (builder.add("permute", [value], axes=axes),)
        case 2:
            stop = [draw(st.integers(0, extent)) for extent in spec.shape]
            start = [draw(st.integers(0, last)) for last in stop]
            step = [draw(st.integers(1, 3)) for _ in spec.shape]
            return (builder.add("slice", [value], start=start, stop=stop, step=step),)
        case 3 if spec.rank < 4:
            return (builder.add("broadcast", [value], shape=(2, *spec.shape)),)
        case _ if spec.rank:
            return (
                builder.add("concat", [value, value], axis=draw(st.integers(0, spec.rank - 1))),
            )
    return ()


def _gather(
    draw: st.DrawFn, builder: GraphBuilder, value: int, values: list[int]
) -> tuple[int, ...]:
    spec = builder.spec(value)
    axes = [axis for axis, extent in enumerate(spec.shape) if extent]
    if not axes or spec.rank > 4:
        return ()
    axis = draw(st.sampled_from(axes))
    picked = draw(st.lists(st.integers(0, spec.shape[axis] - 1), max_size=3))
    indices = builder.constant(np.array(picked, np.int32))
    return (builder.add("gather", [value, indices], axis=axis),)


def _cast(draw: st.DrawFn, builder: GraphBuilder, value: int, values: list[int]) -> tuple[int]:
    return (builder.add("cast", [value], dtype=draw(dtypes)),)


_STEPS: list[Step] = [_formula, _matmul, _reduce, _extreme, _move, _gather, _cast]
