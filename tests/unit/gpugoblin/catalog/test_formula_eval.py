from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.formula_eval import evaluate_formula, formula_errors
from gpugoblin.catalog.rounding import U


def test_inner_values_have_the_range_of_float32() -> None:
    # exp(100) is infinite in float32, so x / x is NaN, although float64 would say 1.
    builder = FormulaBuilder()
    power = builder.call("exp", builder.input(0))
    tree = builder.build(builder.call("div", power, power))
    result = evaluate_formula(tree, [np.array([100.0, 1.0], np.float32)])
    np.testing.assert_array_equal(result, [np.nan, 1.0])


def test_inner_values_have_the_precision_of_float64() -> None:
    builder = FormulaBuilder()
    x = builder.input(0)
    moved = builder.call("add", x, builder.const("float32", 1e8))
    tree = builder.build(builder.call("sub", moved, builder.const("float32", 1e8)))
    assert evaluate_formula(tree, [np.array([0.5], np.float32)]).tolist() == [0.5]


def test_inputs_broadcast() -> None:
    x = np.arange(3, dtype=np.float32).reshape(3, 1)
    y = np.arange(4, dtype=np.float32)
    result = evaluate_formula(call_formula("mul"), [x, y])
    np.testing.assert_array_equal(result, x * y)
    assert result.dtype == np.float32


def test_large_arrays_are_cut_without_a_seam() -> None:
    x = np.random.default_rng(0).standard_normal((300, 400)).astype(np.float32)
    y = x[:1]
    np.testing.assert_array_equal(evaluate_formula(call_formula("add"), [x, y]), x + y)
    error = formula_errors(call_formula("add"), [x, y], [None, None])
    assert error is not None
    assert error.shape == x.shape
    assert (error > 0).all()


def two_step() -> Formula:
    builder = FormulaBuilder()
    product = builder.call("mul", builder.input(0), builder.input(1))
    return builder.build(builder.call("add", product, builder.const("float32", 1.0)))


def test_errors_of_inputs_are_carried_and_rounding_added() -> None:
    x, y = np.array([2.0], np.float32), np.array([3.0], np.float32)
    exact = formula_errors(two_step(), [x, y], [None, None])
    assert exact is not None
    assert 13 * U < exact[0] < 22 * U
    carried = formula_errors(two_step(), [x, y], [np.array([1e-3]), None])
    assert carried is not None
    np.testing.assert_allclose(carried, 3e-3, rtol=1e-3)


def test_exact_formulas_have_no_error() -> None:
    x = np.array([1.0, -2.0], np.float32)
    assert formula_errors(call_formula("neg"), [x], [None]) is None
    i = np.array([1, 2], np.int32)
    assert formula_errors(call_formula("mul"), [i, i], [None, None]) is None


def test_overflow_near_the_edge_is_open_and_beyond_it_certain() -> None:
    x = np.array([1.7e38, 3.0e38, 1.0], np.float32)
    edge = np.float32(3.4028235e38)
    values = [np.array([edge, edge, 1.0], np.float32), np.array([1.0, 2.0, 1.0], np.float32)]
    error = formula_errors(call_formula("mul"), values, [None, None])
    assert error is not None
    assert error[0] == np.inf
    assert error[1] == 0.0
    assert 0 < error[2] < 1e-6
    assert np.isinf(evaluate_formula(call_formula("add"), [x, x])).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("target", "numbers", "expected"),
    [
        ("int8", [100, 127, 200, -128], [1.0, np.inf, 1.0, np.inf]),
        ("uint8", [100, 127, 256, 255], [1.0, 1.0, np.inf, np.inf]),
        ("int64", [100, 127, 256, 255], [1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_a_cast_of_integers_that_may_wrap_is_open(
    target: str, numbers: list[int], expected: list[float]
) -> None:
    builder = FormulaBuilder()
    tree = builder.build(builder.cast(builder.input(0), target))
    found = formula_errors(tree, [np.array(numbers, np.int32)], [np.ones(4)])
    assert found is not None
    assert found.tolist() == expected


def test_a_cast_near_an_integer_is_open() -> None:
    builder = FormulaBuilder()
    tree = builder.build(
        builder.cast(builder.call("mul", builder.input(0), builder.input(1)), "int32")
    )
    third = np.array([1 / 3, 1 / 3], np.float32)
    error = formula_errors(tree, [third, np.array([3.0, 4.5], np.float32)], [None, None])
    assert error is not None
    assert error.tolist() == [1.0, 0.0]
