from __future__ import annotations

import math

import numpy as np
import pytest

from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula, const_bits, const_value
from gpugoblin.errors import GraphError


def test_equal_nodes_are_one_and_unused_ones_are_left_out() -> None:
    builder = FormulaBuilder()
    x = builder.input(0)
    square = builder.call("mul", x, x)
    builder.call("sin", x)
    tree = builder.build(builder.call("add", square, builder.call("mul", x, x)))
    assert tree == Formula(
        (FormulaNode("input"), FormulaNode("mul", (0, 0)), FormulaNode("add", (1, 1)))
    )


def test_the_order_of_calls_does_not_matter() -> None:
    def tree(*, swapped: bool) -> Formula:
        builder = FormulaBuilder()
        inputs = [builder.input(number) for number in ((1, 0) if swapped else (0, 1))]
        x, y = reversed(inputs) if swapped else inputs
        return builder.build(builder.call("sub", x, y))

    assert tree(swapped=True) == tree(swapped=False)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float32", 0.1), ("float32", -0.0), ("int32", -5), ("int64", -(2**63)), ("bool", True)],
)
def test_constants_survive_as_bits(dtype: str, value: float) -> None:
    node = FormulaNode("const", value=const_bits(dtype, value), dtype=dtype)
    stored = const_value(node)
    assert stored.shape == ()
    expected = np.array(value, stored.dtype)
    assert stored.tobytes() == expected.tobytes()
    assert 0 <= node.value < 2**64


def test_special_floats_are_constants() -> None:
    nan = FormulaNode("const", value=const_bits("float32", math.nan), dtype="float32")
    assert np.isnan(const_value(nan))
    over = FormulaNode("const", value=const_bits("float32", 1e300), dtype="float32")
    assert np.isinf(const_value(over))


@pytest.mark.parametrize(("dtype", "value"), [("int32", 2**31), ("int64", 0.5), ("float8", 1)])
def test_constants_that_do_not_fit(dtype: str, value: float) -> None:
    with pytest.raises(GraphError, match="formula_malformed"):
        const_bits(dtype, value)


def test_bad_calls() -> None:
    builder = FormulaBuilder()
    with pytest.raises(GraphError, match="formula_malformed"):
        builder.call("eval", builder.input(0))
    with pytest.raises(GraphError, match="formula_malformed"):
        builder.call("neg", 7)


def test_call_formula_takes_the_inputs_in_order() -> None:
    tree = call_formula("where")
    assert [node.value for node in tree.nodes[:3]] == [0, 1, 2]
    assert tree.nodes[3] == FormulaNode("where", (0, 1, 2))
