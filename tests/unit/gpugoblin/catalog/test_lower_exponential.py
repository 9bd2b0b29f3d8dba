"""Exponentials and their kin as trees: overflow, subnormals, cancellation near 0."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from gpugoblin.catalog import lower_exponential as lowered
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.lowering import lower_formula
from gpugoblin.catalog.plain import evaluate_plain
from gpugoblin.catalog.spec import Array
from gpugoblin.catalog.terms import Term, term


def evaluated(rule: Callable[..., Term], *columns: list[float]) -> Array:
    """A rule on float32, its own functions written in basic ones."""
    builder = FormulaBuilder()
    operands = [term(builder, builder.input(place), "float32") for place in range(len(columns))]
    tree = builder.build(rule(*operands).node)
    plain = lower_formula(tree, ["float32"] * len(columns))
    return evaluate_plain(plain, [np.array(column, np.float32) for column in columns])


def test_exp_overflows_and_vanishes_where_float32_does() -> None:
    found = evaluated(lowered.exp, [88.72283, 88.7229, -103.97, -104.0, 0.0, math.nan])
    assert np.isfinite(found[0])
    assert found[1] == math.inf
    assert found[2] == np.float32(1e-45)
    assert found[3] == 0.0
    assert found[4] == 1.0
    assert np.isnan(found[5])


def test_log_of_subnormals_zero_and_negatives() -> None:
    found = evaluated(lowered.log, [1e-45, 1.0, 0.0, -1.0, math.inf])
    assert found[0] == pytest.approx(math.log(2.0**-149), rel=1e-7)
    assert found[1] == 0.0
    assert found[2] == -math.inf
    assert np.isnan(found[3])
    assert found[4] == math.inf


@pytest.mark.parametrize(
    ("rule", "function"),
    [(lowered.expm1, np.expm1), (lowered.log1p, np.log1p), (lowered.tanh, np.tanh),
     (lowered.sinh, np.sinh)],
)  # fmt: skip
def test_nothing_cancels_near_zero(rule: Callable[..., Term], function: np.ufunc) -> None:
    near = [1e-30, 1e-10, -1e-5, 3e-4, -0.01]
    wide = np.array(near, np.float32).astype(np.float64)
    np.testing.assert_allclose(evaluated(rule, near), function(wide), rtol=5e-7)


def test_saturation() -> None:
    assert evaluated(lowered.tanh, [20.0, -20.0]).tolist() == [1.0, -1.0]
    assert evaluated(lowered.erf, [5.0, -5.0]).tolist() == [1.0, -1.0]
    assert evaluated(lowered.sigmoid, [200.0, -200.0]).tolist() == [1.0, 0.0]
    np.testing.assert_allclose(
        evaluated(lowered.softplus, [100.0, -100.0]), [100.0, 0.0], atol=4e-44
    )
    assert evaluated(lowered.cosh, [89.5])[0] == math.inf


def test_sums_of_logarithms_do_not_overflow() -> None:
    found = evaluated(lowered.log_sum, [1e38, -math.inf, 0.0], [1e38, -math.inf, 0.0])
    np.testing.assert_allclose(found, [1e38, -math.inf, math.log(2.0)], rtol=2e-7)


def test_zero_times_a_logarithm_is_zero() -> None:
    assert evaluated(lowered.x_log_y, [0.0, 0.0, 2.0], [0.0, math.inf, 1.0]).tolist() == [0.0] * 3


def test_other_bases() -> None:
    np.testing.assert_allclose(evaluated(lowered.log2, [8.0, 0.25]), [3.0, -2.0], rtol=2e-7)
    np.testing.assert_allclose(evaluated(lowered.log10, [1000.0, 0.1]), [3.0, -1.0], rtol=2e-7)
    assert evaluated(lowered.exp2, [10.0, -149.0, 128.0]).tolist() == [1024.0, 2.0**-149, math.inf]
    np.testing.assert_allclose(
        evaluated(lowered.power, [2.0, 3.0], [0.5, 4.0]), [2**0.5, 81.0], rtol=5e-7
    )
