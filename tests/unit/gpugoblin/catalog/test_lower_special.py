"""Special functions as trees: against the standard library, and bit by bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from gpugoblin.catalog import lower_special as lowered
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


def test_error_functions() -> None:
    x = [-3.0, -0.4, 0.0, 0.7, 2.5, 9.0]
    wanted = [math.erfc(float(np.float32(one))) for one in x]
    np.testing.assert_allclose(evaluated(lowered.erfc, x), wanted, rtol=3e-6)
    back = evaluated(lowered.erfinv, [math.erf(0.3), math.erf(-1.7), 1.0, -1.0, 1.5])
    np.testing.assert_allclose(back[:2], [0.3, -1.7], rtol=2e-6)
    assert back[2:4].tolist() == [math.inf, -math.inf]
    assert np.isnan(back[4])


def test_gamma_functions() -> None:
    x = [0.1, 0.5, 1.0, 2.0, 7.3, 100.0, -0.5]
    wanted = [math.lgamma(float(np.float32(one))) for one in x]
    np.testing.assert_allclose(evaluated(lowered.log_gamma, x), wanted, rtol=3e-6, atol=2.0**-16)
    euler = 0.5772156649015329
    found = evaluated(lowered.digamma, [1.0, 2.0, 0.5])
    np.testing.assert_allclose(found, [-euler, 1 - euler, -euler - 2 * math.log(2)], atol=2.0**-17)
    assert evaluated(lowered.log_gamma, [0.0, -2.0]).tolist() == [math.inf, math.inf]


def test_areas() -> None:
    np.testing.assert_allclose(evaluated(lowered.area_sine, [-9.0, 1e-5, 1e30]),
                               np.arcsinh(np.array([-9.0, 1e-5, 1e30])), rtol=6e-7)  # fmt: skip
    np.testing.assert_allclose(
        evaluated(lowered.area_cosine, [1.0, 3.0]), np.arccosh([1.0, 3.0]), rtol=6e-7
    )
    np.testing.assert_allclose(
        evaluated(lowered.area_tangent, [0.5, -1e-4]), np.arctanh([0.5, -1e-4]), rtol=6e-7
    )


def test_lengths_do_not_overflow() -> None:
    found = evaluated(lowered.hypot, [3e38, 3.0, 1e-40], [1e38, 4.0, 0.0])
    np.testing.assert_allclose(found, [np.hypot(3e38, 1e38), 5.0, 1e-40], rtol=3e-7, atol=2e-45)


def test_cube_roots() -> None:
    x = [27.0, -8.0, 1e-40, 1e38]
    wide = np.array(x, np.float32).astype(np.float64)
    np.testing.assert_allclose(evaluated(lowered.cube_root, x), np.cbrt(wide), rtol=3e-7)


@pytest.mark.parametrize(
    ("rule", "dropped"), [(lowered.round_bfloat16, 16), (lowered.round_tf32, 13)]
)
def test_rounding_to_fewer_bits_goes_to_even(rule: Callable[..., Term], dropped: int) -> None:
    step = 2.0 ** (dropped - 23)
    found = evaluated(rule, [1 + step / 2, 1 + 1.5 * step, 1 + 0.75 * step, -math.inf])
    assert found.tolist() == [1.0, 1 + 2 * step, 1 + step, -math.inf]


def test_float16_is_numpys() -> None:
    x = [65504.0, 65519.0, 65520.0, 1e-8, 5.9604645e-08, 6.1e-05, -1.0009765]
    with np.errstate(over="ignore"):
        wanted = np.array(x, np.float32).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(evaluated(lowered.round_float16, x), wanted)


def test_signs_and_neighbors() -> None:
    assert evaluated(lowered.signbit, [-0.0, 0.0, -3.0, math.nan]).tolist() == [
        True,
        False,
        True,
        False,
    ]
    assert evaluated(lowered.copysign, [3.0, -3.0], [-0.0, 1.0]).tolist() == [-3.0, 3.0]
    found = evaluated(lowered.next_after, [1.0, 0.0, -1.0], [2.0, -1.0, 0.0])
    wanted = np.nextafter(np.array([1, 0, -1], np.float32), np.array([2, -1, 0], np.float32))
    np.testing.assert_array_equal(found, wanted)
