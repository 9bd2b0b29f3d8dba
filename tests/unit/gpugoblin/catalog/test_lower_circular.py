"""Circular functions as trees: where their arguments are reduced, and their edges."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from gpugoblin.catalog import lower_circular as lowered
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


def test_large_arguments_are_reduced_exactly() -> None:
    large = [1e6, 16367173.0, 1e22, 2.5378897e38, 3.4028235e38]
    wide = np.array(large, np.float32).astype(np.float64)
    np.testing.assert_allclose(evaluated(lowered.sin, large), np.sin(wide), rtol=3e-7)
    np.testing.assert_allclose(evaluated(lowered.cos, large), np.cos(wide), rtol=3e-7)


def test_quadrants_and_signs() -> None:
    turns = [k * math.pi / 4 for k in range(-9, 10)]
    wide = np.array(turns, np.float32).astype(np.float64)
    np.testing.assert_allclose(evaluated(lowered.sin, turns), np.sin(wide), rtol=2e-7, atol=1e-38)
    np.testing.assert_allclose(evaluated(lowered.cos, turns), np.cos(wide), rtol=2e-7, atol=1e-38)
    np.testing.assert_allclose(evaluated(lowered.tan, [0.3, -1.2]), np.tan([0.3, -1.2]), rtol=4e-7)


def test_zero_keeps_its_sign_and_infinity_has_no_sine() -> None:
    found = evaluated(lowered.sin, [0.0, -0.0, math.inf, math.nan])
    assert found[:2].tolist() == [0.0, 0.0]
    assert np.signbit(found[:2]).tolist() == [False, True]
    assert np.isnan(found[2:]).all()


def test_sinc_is_one_at_zero_and_zero_at_whole_numbers() -> None:
    found = evaluated(lowered.sinc, [0.0, 0.5, 1.0])
    assert found[0] == 1.0
    assert found[1] == pytest.approx(2 / math.pi, rel=4e-7)
    assert abs(found[2]) < 1e-6


def test_the_reduction_has_the_bits_of_two_over_pi() -> None:
    value = 0
    for word in lowered.TWO_OVER_PI:
        value = value << 32 | word
    share = value / 2.0 ** (32 * len(lowered.TWO_OVER_PI))
    scaled = share / (2 / math.pi)
    assert math.log2(scaled) == pytest.approx(round(math.log2(scaled)), abs=1e-12)


def test_inverses_reach_their_ends() -> None:
    ends = [-1.0, -0.5, 0.0, 0.70710677, 1.0]
    wide = np.array(ends, np.float32).astype(np.float64)
    np.testing.assert_allclose(evaluated(lowered.arc_sine, ends), np.arcsin(wide), rtol=4e-7)
    np.testing.assert_allclose(evaluated(lowered.arc_cosine, ends), np.arccos(wide), rtol=4e-7)
    assert np.isnan(evaluated(lowered.arc_sine, [1.0000001])).all()
    found = evaluated(lowered.arc_tangent, [math.inf, -math.inf, 0.4142, 2.4143])
    np.testing.assert_allclose(found, np.arctan([math.inf, -math.inf, 0.4142, 2.4143]), rtol=3e-7)


def test_atan2_knows_the_quadrants() -> None:
    y, x = [1.0, 1.0, -1.0, -1.0, 0.0], [1.0, -1.0, -1.0, 1.0, -1.0]
    np.testing.assert_allclose(evaluated(lowered.arc_tangent2, y, x), np.arctan2(y, x), rtol=3e-7)
