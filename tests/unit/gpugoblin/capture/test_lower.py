"""Lazy expressions against NumPy, through the reference interpreter; fusing and its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpugoblin as gg
from gpugoblin.capture.lower import MAX_INPUTS, Lowered, lower
from gpugoblin.capture.source import MemorySource
from gpugoblin.catalog.formula import MAX_FORMULA_INPUTS, MAX_FORMULA_NODES, Formula
from gpugoblin.errors import CaptureError
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.serialize import decode, encode, graph_hash

Pair = tuple[gg.Array, np.ndarray[Any, Any]]


def lowered(*arrays: gg.Array) -> Lowered:
    return lower([array.value for array in arrays])


def compute(*arrays: gg.Array) -> list[np.ndarray[Any, Any]]:
    made = lowered(*arrays)
    inputs = []
    for source in made.sources:
        assert isinstance(source, MemorySource)
        inputs.append(source.array)
    return list(interpret(made.graph, inputs))


def operators(array: gg.Array) -> list[str]:
    return [node.operator for node in lowered(array).graph.nodes]


def formulas(array: gg.Array) -> list[Formula]:
    nodes = lowered(array).graph.nodes
    return [tree for node in nodes if isinstance(tree := node.attrs.get("tree"), Formula)]


# Random programs: a pool of pairs (lazy array, its numbers), grown by random steps.

SHAPES = [(), (1,), (3,), (4,), (3, 4), (1, 4), (3, 1), (2, 3, 4), (0, 4)]
Step = Callable[[st.DrawFn, Sequence[Pair]], Pair | None]


def _broadcasts(*arrays: np.ndarray[Any, Any]) -> bool:
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        return False
    return True


def _binary(names: Sequence[tuple[str, Any]]) -> Step:
    def step(draw: st.DrawFn, pool: Sequence[Pair]) -> Pair | None:
        (a, x), (b, y) = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        name, ufunc = draw(st.sampled_from(names))
        if not _broadcasts(x, y) or {"bool", "int64"} <= {str(x.dtype), str(y.dtype)}:
            return None
        if "bool" in (str(x.dtype), str(y.dtype)) and (
            x.dtype != y.dtype or name not in ("logical_and", "logical_or", "logical_xor", "equal")
        ):
            return None
        return getattr(gg, name)(a, b), np.asarray(ufunc(x, y))

    return step


def _reduce(names: Sequence[str]) -> Step:
    def step(draw: st.DrawFn, pool: Sequence[Pair]) -> Pair | None:
        a, x = draw(st.sampled_from(pool))
        name = draw(st.sampled_from(names))
        axis = draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
        keepdims = draw(st.booleans())
        bounded = name in ("max", "min", "mean", "argmax", "argmin")
        if bounded and (x.size == 0 or x.dtype == bool):
            return None
        if x.dtype == bool and name not in ("any", "all", "sum"):
            return None
        if x.ndim == 0 and name in ("argmax", "argmin"):
            return None
        method = getattr(a, name)(axis=axis, keepdims=keepdims)
        return method, np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))

    return step


def _index(draw: st.DrawFn, pool: Sequence[Pair]) -> Pair | None:
    a, x = draw(st.sampled_from(pool))
    parts: list[Any] = []
    for extent in x.shape[: draw(st.integers(0, x.ndim))]:
        first, last = draw(st.integers(-6, 6)), draw(st.integers(-6, 6))
        choices: list[Any] = [slice(None), slice(first, last, draw(st.integers(1, 3))), None]
        if extent:
            choices.append(draw(st.integers(-extent, extent - 1)))
        parts.append(draw(st.sampled_from(choices)))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), ...)
    index = tuple(parts)
    try:
        expected = x[index]
    except IndexError:
        with pytest.raises(CaptureError):
            a[index]
        return None
    return (a[index], np.asarray(expected)) if expected.ndim <= 4 else None


def _move(draw: st.DrawFn, pool: Sequence[Pair]) -> Pair | None:
    a, x = draw(st.sampled_from(pool))
    match draw(st.sampled_from(["T", "ravel", "permute", "expand", "concat", "stack", "take"])):
        case "T":
            return a.T, x.T
        case "ravel":
            return a.ravel(), x.ravel()
        case "permute":
            axes = draw(st.permutations(range(x.ndim)))
            return a.permute(*axes), x.transpose(axes)
        case "expand" if x.ndim < 4:
            axis = draw(st.integers(-x.ndim - 1, x.ndim))
            return gg.expand_dims(a, axis), np.expand_dims(x, axis)
        case "concat" if x.ndim:
            axis = draw(st.integers(-x.ndim, x.ndim - 1))
            return gg.concat([a, a, a], axis=axis), np.concatenate([x, x, x], axis)
        case "stack" if x.ndim < 4:
            return gg.stack([a, a], axis=-1), np.stack([x, x], -1)
        case "take" if x.ndim and x.shape[-1]:
            indices = [0, -1, x.shape[-1] - 1]
            return gg.take(a, indices, axis=-1), np.take(x, indices, axis=-1)
    return None


def _where(draw: st.DrawFn, pool: Sequence[Pair]) -> Pair | None:
    (a, x), (b, y), (c, z) = (draw(st.sampled_from(pool)) for _ in range(3))
    if y.dtype != z.dtype or not _broadcasts(x, y, z):
        return None
    return gg.where(a != 0 if x.dtype != bool else a, b, c), np.where(x != 0, y, z)


def _matmul(draw: st.DrawFn, pool: Sequence[Pair]) -> Pair | None:
    (a, x), (b, y) = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
    if bool in (x.dtype, y.dtype) or (x.dtype != y.dtype and np.float32 in (x.dtype, y.dtype)):
        return None
    if draw(st.booleans()):
        b, y = (b.mT, np.swapaxes(y, -1, -2)) if y.ndim > 1 else (b, y)
    try:
        with np.errstate(all="ignore"):
            expected = np.asarray(x @ y)
    except ValueError:
        with pytest.raises(CaptureError):
            a @ b
        return None
    return a @ b, expected


INTEGER_STEPS: list[Step] = [
    _binary(
        [
            ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply),
            ("maximum", np.maximum), ("minimum", np.minimum), ("equal", np.equal),
            ("less", np.less), ("logical_and", np.bitwise_and), ("logical_or", np.bitwise_or),
            ("logical_xor", np.bitwise_xor),
        ]
    ),
    _reduce(["sum", "max", "min", "any", "all", "argmax", "argmin"]),
    _index, _move, _where, _matmul,
]  # fmt: skip

FLOAT_STEPS: list[Step] = [
    _binary([("add", np.add), ("subtract", np.subtract), ("maximum", np.maximum)]),
    _reduce(["sum", "mean", "max", "min"]),
    _index, _move, _matmul,
]  # fmt: skip


@st.composite
def programs(draw: st.DrawFn, dtypes: Sequence[str], steps: Sequence[Step]) -> list[Pair]:
    seed = draw(st.integers(0, 2**16))
    generator = np.random.default_rng(seed)
    pool: list[Pair] = []
    for shape in draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3)):
        dtype = draw(st.sampled_from(dtypes))
        if dtype == "float32":
            numbers = generator.uniform(-1, 1, shape).astype(dtype)
        else:
            numbers = generator.integers(-9, 9, shape).astype(dtype)
        numbers = np.asarray(numbers)
        pool.append((gg.array(numbers), numbers))
    with np.errstate(all="ignore"):
        for _ in range(draw(st.integers(1, 8))):
            made = draw(st.sampled_from(steps))(draw, pool)
            if made is not None and made[1].size < 5000:
                pool.append(made)
    return pool


@settings(max_examples=150, deadline=None)
@given(programs(["int32", "int64", "bool"], INTEGER_STEPS))
def test_integer_programs_equal_numpy(pool: list[Pair]) -> None:
    for lazy, numbers in pool:
        assert lazy.shape == numbers.shape
    results = compute(*(lazy for lazy, _ in pool))
    for result, (lazy, numbers) in zip(results, pool, strict=True):
        assert result.dtype == lazy.dtype
        np.testing.assert_array_equal(result, numbers.astype(result.dtype))


@settings(max_examples=100, deadline=None)
@given(programs(["float32"], FLOAT_STEPS))
def test_float_programs_agree_with_numpy(pool: list[Pair]) -> None:
    results = compute(*(lazy for lazy, _ in pool))
    for result, (lazy, numbers) in zip(results, pool, strict=True):
        assert (result.dtype, result.shape) == (lazy.dtype, numbers.shape)
        scale = max(1.0, float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0)))
        np.testing.assert_allclose(result, numbers, rtol=1e-4, atol=1e-4 * scale)


@settings(max_examples=40, deadline=None)
@given(programs(["float32"], FLOAT_STEPS))
def test_graphs_are_canonical(pool: list[Pair]) -> None:
    made = lowered(pool[-1][0])
    assert decode(encode(made.graph)) == made.graph
    assert graph_hash(lowered(pool[-1][0]).graph) == graph_hash(made.graph)


def test_equal_programs_have_equal_graphs_whatever_their_lines() -> None:
    def first(x: gg.Array) -> gg.Array:
        return gg.exp(x) + gg.tanh(x)

    def second(x: gg.Array) -> gg.Array:
        right = gg.tanh(x)
        left = gg.exp(x)
        return left + right

    x = gg.array(np.ones((2, 3), np.float32))
    assert graph_hash(lowered(first(x)).graph) == graph_hash(lowered(second(x)).graph)


def test_adjacent_elementwise_nodes_become_one_formula() -> None:
    x = gg.array(np.ones((2, 3), np.float32))
    assert operators(gg.where(x > 0, gg.exp(x) * 2 + 1, -x).astype("int32")) == ["formula"]


def test_a_lone_cast_is_a_cast() -> None:
    x = gg.array(np.ones(3, np.float32))
    assert operators(x.astype("int64")) == ["cast"]


def test_a_node_that_two_formulas_need_is_computed_once() -> None:
    x = gg.array(np.ones((2, 3), np.float32))
    shared = gg.exp(x)
    assert operators((shared - shared.sum(axis=0)) / 2) == ["formula", "reduce", "formula"]


def test_a_smaller_shape_is_not_computed_for_every_row() -> None:
    row = gg.array(np.ones(3, np.float32))
    x = gg.array(np.ones((1000, 3), np.float32))
    sizes = [len(tree.nodes) for tree in formulas(x * gg.exp(row))]
    assert sorted(sizes) == [2, 3]


def test_formulas_stay_within_their_nodes() -> None:
    x = gg.array(np.linspace(0, 1, 5, dtype=np.float32))
    y = x
    expected = np.linspace(0, 1, 5, dtype=np.float32)
    for number in range(1000):
        y = y * 0.5 + float(number % 7)
        expected = expected * np.float32(0.5) + np.float32(number % 7)
    trees = formulas(y)
    assert len(trees) > 2
    assert max(len(tree.nodes) for tree in trees) <= MAX_FORMULA_NODES
    np.testing.assert_allclose(compute(y)[0], expected, rtol=1e-5)


def test_formulas_stay_within_their_inputs() -> None:
    arrays = [np.full(4, number, np.float32) for number in range(100)]
    total = gg.array(arrays[0])
    for array in arrays[1:]:
        total = total + array
    made = lowered(total)
    assert len(made.sources) == 100
    assert max(len(node.inputs) for node in made.graph.nodes) <= MAX_FORMULA_INPUTS
    np.testing.assert_array_equal(compute(total)[0], np.full(4, 4950, np.float32))


def test_a_long_chain_needs_no_recursion() -> None:
    x = gg.array(np.zeros(2, np.int64))
    for _ in range(5000):
        x = x + 1
    np.testing.assert_array_equal(compute(x)[0], [5000, 5000])


def test_equal_inputs_are_one() -> None:
    numbers = np.arange(6, dtype=np.float32)
    assert len(lowered(gg.array(numbers) + gg.array(numbers.copy())).sources) == 1


def test_too_many_inputs_are_refused_with_a_line() -> None:
    parts = [gg.array(np.full(1, number, np.int64)) for number in range(MAX_INPUTS + 1)]
    with pytest.raises(CaptureError) as caught:
        lowered(gg.concat(parts))
    assert caught.value.code == "too_many_inputs"
    assert "test_lower.py" in str(caught.value)


def test_a_transposed_operand_is_read_in_place() -> None:
    x = gg.array(np.ones((4, 3), np.float32))
    assert operators(x @ x.T) == ["matmul"]
    assert operators(x.T @ x) == ["matmul"]


def test_several_outputs_share_their_work() -> None:
    x = gg.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    values, positions = gg.topk(x, 2)
    graph = lowered(values, positions, values).graph
    assert [node.operator for node in graph.nodes] == ["topk"]
    first, second, third = compute(values, positions, values)
    np.testing.assert_array_equal(first, [[3, 2], [7, 6], [11, 10]])
    np.testing.assert_array_equal(second, [[3, 2]] * 3)
    np.testing.assert_array_equal(third, first)


def test_literals_alone_become_constants() -> None:
    np.testing.assert_array_equal(compute(gg.full((2, 3), 7, dtype="int32"))[0], np.full((2, 3), 7))
    (chosen,) = compute(gg.where(gg.array(np.array([True, False])), 1.5, 2))
    np.testing.assert_array_equal(chosen, np.array([1.5, 2], np.float32))


def test_names_and_lines_stay_in_the_side_table() -> None:
    made = lowered(gg.exp(gg.array(np.ones(3, np.float32))))
    assert "test_lower.py" in made.names.inputs[0]
    assert any("test_lower.py" in line for line in made.names.lines.values())
    assert b"test_lower" not in encode(made.graph)
