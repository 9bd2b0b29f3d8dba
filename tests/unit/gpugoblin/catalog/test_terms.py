from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.formula_check import check_formula
from gpugoblin.catalog.plain import evaluate_plain
from gpugoblin.catalog.terms import Term, horner, select, term


def test_arithmetic_with_terms_and_numbers_on_either_side() -> None:
    builder = FormulaBuilder()
    x, y = term(builder, builder.input(0)), term(builder, builder.input(1))
    value = 3.0 - (2.0 * x + y / 4.0) * (1.0 / y) - abs(-x) + 0.5
    tree = builder.build(value.node)
    a, b = np.array([1.5, -2.0], np.float32), np.array([2.0, 8.0], np.float32)
    expected = 3.0 - (2.0 * a + b / 4.0) * (1.0 / b) - abs(a) + 0.5
    np.testing.assert_allclose(evaluate_plain(tree, [a, b]), expected, rtol=1e-6)


def test_bits_tests_and_casts_have_their_dtypes() -> None:
    builder = FormulaBuilder()
    x = term(builder, builder.input(0))
    pattern = ((x.bits() >> 23) & 255) - 127
    chosen = select((x > 0.0) & x.call("isfinite"), pattern, 0).cast("float32")
    assert check_formula(builder.build(chosen.node), ["float32"])[-1] == chosen.dtype == "float32"
    found = evaluate_plain(builder.build(chosen.node), [np.array([8.0, -1.0], np.float32)])
    np.testing.assert_array_equal(found, [3.0, 0.0])
    assert (pattern.dtype, (x < 1.0).dtype) == ("int32", "bool")
    assert x.cast("float32") is x


def test_a_choice_needs_a_term() -> None:
    builder = FormulaBuilder()
    x = term(builder, builder.input(0))
    with pytest.raises(TypeError, match="must be a term"):
        select(x < 0.0, 1.0, 2.0)


def test_horner_is_the_polynomial() -> None:
    builder = FormulaBuilder()
    x: Term = term(builder, builder.input(0))
    tree = builder.build(horner(x, (2.0, -1.0, 0.5)).node)
    np.testing.assert_array_equal(evaluate_plain(tree, [np.float32([3.0])]), [15.5])
