"""Chains: blocks, registers, broadcasting, constants by their bits."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu.elementwise import (
    Chain,
    ChainBuilder,
    Operand,
    cast_into,
    constant_array,
)
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import DTYPES, Array


def polynomial(terms: int) -> Formula:
    """x y + 1, again and again: needs one register however long it is."""
    build = FormulaBuilder()
    x, y = build.input(0), build.input(1)
    value = x
    for term in range(terms):
        value = build.call("add", build.call("mul", value, y), build.const("float32", term + 0.5))
    return build.build(value)


def chain_of(tree: Formula, dtypes: list[str]) -> Chain:
    builder = ChainBuilder(len(dtypes), 1)
    inputs: list[tuple[Operand, str]] = [
        (("external", place), dtype) for place, dtype in enumerate(dtypes)
    ]
    builder.store(*builder.add(tree, inputs), 0)
    return builder.build()


def evaluate(tree: Formula, inputs: list[Array], dtype: str, pool: Pool) -> Array:
    names = {kind: name for name, kind in DTYPES.items()}
    out = np.empty(np.broadcast_shapes(*(array.shape for array in inputs)), DTYPES[dtype])
    chain = chain_of(tree, [names[array.dtype] for array in inputs])
    with np.errstate(all="ignore"):
        chain.run(inputs, [out], Context(pool))
    return out


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((300_000,), (300_000,)),
        ((500, 700), (700,)),
        ((500, 1), (1, 700)),
        ((3, 1, 5, 1), (4, 1, 6)),
        ((), (70_001,)),
        ((1, 1), (5, 6)),
        ((), ()),
        ((2, 100_000), (2, 1)),
        ((0, 4), (1, 4)),
    ],
)
def test_blocks_and_broadcasting(
    first: tuple[int, ...], second: tuple[int, ...], pool: Pool
) -> None:
    draw = np.random.default_rng(12)
    x = draw.standard_normal(first).astype(np.float32)
    y = draw.standard_normal(second).astype(np.float32)
    expected = np.asarray(x * np.ones_like(y))
    for term in range(4):
        expected = np.asarray(expected * y + np.float32(term + 0.5))
    result = evaluate(polynomial(4), [x, y], "float32", pool)
    np.testing.assert_array_equal(result, expected)


def test_inputs_may_lie_anyhow(pool: Pool) -> None:
    x = np.random.default_rng(13).standard_normal((400, 600)).astype(np.float32)
    for view in (x.T, x[::2, ::3], x[::-1], np.broadcast_to(x[0], (50, 600))):
        result = evaluate(call_formula("exp"), [view], "float32", pool)
        np.testing.assert_array_equal(result, np.exp(np.ascontiguousarray(view)))


def test_registers_are_used_again() -> None:
    assert chain_of(polynomial(100), ["float32", "float32"]).blocks == 1
    assert chain_of(call_formula("where"), ["bool", "float32", "float32"]).blocks == 0


def test_many_live_registers_make_smaller_blocks(pool: Pool) -> None:
    nodes = [FormulaNode("input")]
    for term in range(80):
        bits = int.from_bytes(np.float32(term + 1).tobytes(), "little")
        nodes.append(FormulaNode("const", value=bits, dtype="float32"))
        nodes.append(FormulaNode("mul", (0, len(nodes) - 1)))
    total = 2
    for term in range(1, 80):
        nodes.append(FormulaNode("add", (total, 2 * term + 2)))
        total = len(nodes) - 1
    tree = Formula(tuple(nodes))
    chain = chain_of(tree, ["float32"])
    assert chain.blocks >= 80
    assert chain.block_elements * 8 * chain.blocks <= 4 << 20
    data = np.arange(20_000, dtype=np.float32)
    np.testing.assert_allclose(evaluate(tree, [data], "float32", pool), data * 3240, rtol=1e-5)


def test_results_that_are_kept_and_used_further(pool: Pool) -> None:
    builder = ChainBuilder(1, 3)
    x: tuple[Operand, str] = (("external", 0), "float32")
    first = builder.add(call_formula("exp"), [x])
    second = builder.add(call_formula("neg"), [first])
    for place, value in enumerate((first, second, first)):
        builder.store(*value, place)
    data = np.random.default_rng(14).standard_normal(100_000).astype(np.float32)
    outputs = [np.empty_like(data) for _ in range(3)]
    builder.build().run([data], outputs, Context(pool))
    for output, expected in zip(outputs, (np.exp(data), -np.exp(data), np.exp(data)), strict=True):
        np.testing.assert_array_equal(output, expected)


def test_a_formula_may_be_its_input_or_a_constant(pool: Pool) -> None:
    data = np.arange(5, dtype=np.int64)
    tree = Formula((FormulaNode("input"),))
    np.testing.assert_array_equal(evaluate(tree, [data], "int64", pool), data)
    tree = Formula((FormulaNode("input"), FormulaNode("const", value=2**64 - 3, dtype="int64")))
    np.testing.assert_array_equal(evaluate(tree, [data], "int64", pool), np.full(5, -3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_are_bit_patterns(dtype: str) -> None:
    kind = DTYPES[dtype]
    bits = 1 if dtype == "bool" else 2 ** (8 * kind.itemsize) - 1
    array = constant_array(bits, dtype)
    assert array.shape == ()
    assert array.dtype == kind
    assert int.from_bytes(array.tobytes(), "little") == bits


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_casts_are_the_catalogs(source: str, target: str) -> None:
    values = [0, 1, -1, 2**31 - 1, -(2**31), 2**40, -(2**62), 5]
    with np.errstate(all="ignore"):
        array = np.array(values, np.int64).astype(DTYPES[source])
        if source == "float32":
            array[1:5] = [np.nan, np.inf, -np.inf, 0.5]
        out = np.empty(array.shape, DTYPES[target])
        cast_into(array, out)
        np.testing.assert_array_equal(out, cast_array(array, target))


def test_dtypes_that_do_not_fit_are_a_programming_error() -> None:
    with pytest.raises(TypeError, match="exp of int32"):
        chain_of(call_formula("exp"), ["int32"])


def test_a_chain_that_nobody_reads_does_nothing() -> None:
    """As a decomposition may leave one for some shapes."""
    builder = ChainBuilder(1, 0)
    builder.add(call_formula("neg"), [(("external", 0), "float32")])
    threads = Pool(1)
    source = np.ones(3, np.float32)
    try:
        builder.build().run([source], [], Context(threads))
    finally:
        threads.close()
    assert source.tolist() == [1, 1, 1]
