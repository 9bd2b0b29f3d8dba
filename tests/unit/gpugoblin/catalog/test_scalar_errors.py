"""Each function's rule, attacked with operands moved to random places within their errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.scalar_errors import unless_wrapped
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import FLOATS, Array

EXACT_ONLY = {"floordiv", "shl", "shr"}
MOVABLE = [
    (name, dtype)
    for name, function in SCALARS.items()
    for dtype in function.accepts
    if name not in EXACT_ONLY and dtype != "int64"
]


@pytest.mark.parametrize(("name", "dtype"), MOVABLE)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_move_within_the_errors_leaves_the_bound(name: str, dtype: str, seed: int) -> None:
    function = SCALARS[name]
    generator = np.random.default_rng(seed)
    count = 200
    kinds = ["bool", dtype, dtype] if name == "where" else [dtype] * function.arity
    operands: list[Array] = []
    errors: list[Array | None] = []
    moved: list[Array] = []
    for kind in kinds:
        value, error, other = _operand(generator, kind, count)
        operands.append(value)
        errors.append(error)
        moved.append(other)
    with np.errstate(all="ignore"):
        result = np.asarray(function.evaluate(*operands))
        bound = function.spread(operands, errors, result)
        if result.dtype.kind in "iu":
            bound = unless_wrapped(result, bound)
        reached = np.asarray(function.evaluate(*moved))
        distance = np.abs(reached.astype(np.float64) - result.astype(np.float64))
    same = (reached == result) | (np.isnan(distance) & (_nan(reached) == _nan(result)))
    slack = 1e-12 * (1 + np.abs(np.nan_to_num(result.astype(np.float64), posinf=0, neginf=0)))
    inside = same | np.isinf(bound) | (distance <= bound + slack)
    assert inside.all(), [
        (tuple(x[i] for x in operands), tuple(e if e is None else e[i] for e in errors))
        for i in np.flatnonzero(~inside)[:3]
    ]


def _nan(array: Array) -> Array:
    return np.isnan(array.astype(np.float64))


def _operand(
    generator: np.random.Generator, kind: str, count: int
) -> tuple[Array, Array | None, Array]:
    """A value, its error (sometimes none), and a value within it."""
    share = generator.uniform(-1, 1, count)
    if kind == "bool":
        value = generator.integers(0, 2, count) == 1
        error = (generator.integers(0, 3, count) == 0).astype(np.float64)
        return value, error, value ^ ((share > 0) & (error > 0))
    if kind not in FLOATS:
        # int32 in the middle of its range, the narrow ones over all of it: they wrap.
        info = np.iinfo(kind)
        low, high = (-5, 5) if kind == "int32" else (info.min, info.max)
        value = generator.integers(low, high + 1, count).astype(kind)
        error = generator.integers(0, 3, count).astype(np.float64)
        other = np.clip(value + np.rint(share * error), info.min, info.max)
        return value, error, other.astype(kind)
    value = generator.standard_normal(count) * generator.choice([0.1, 1.0, 5.0], count)
    value[:6] = (np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0)
    generator.shuffle(value)
    if generator.integers(0, 4) == 0:
        return value, None, value
    error = np.abs(generator.standard_normal(count)) * generator.choice([0.0, 1e-6, 0.5], count)
    error[~np.isfinite(value)] = 0.0
    return value, error, value + share * error


def test_a_spread_over_an_end_of_the_range_is_unbounded() -> None:
    one = np.ones(3)
    assert unless_wrapped(np.array([0, 1, 255], np.uint8), one).tolist() == [np.inf, 1.0, np.inf]
    assert unless_wrapped(np.array([-128, -127, 127], np.int8), one).tolist() == [
        np.inf,
        1.0,
        np.inf,
    ]


@pytest.mark.parametrize("name", sorted(EXACT_ONLY))
def test_integer_functions_without_a_rule_promise_nothing(name: str) -> None:
    values = [np.array([5, 6], np.int32), np.array([2, 2], np.int32)]
    result = np.asarray(SCALARS[name].evaluate(*values))
    bound = SCALARS[name].spread(values, [np.array([0.0, 1.0]), None], result)
    assert bound.tolist() == [0.0, np.inf]


@pytest.mark.parametrize("name", ["exp", "sin", "tanh", "sqrt", "neg", "tan", "cosh", "recip"])
def test_an_unbounded_operand_stays_unbounded(name: str) -> None:
    value = np.array([1.0, 1.0])
    with np.errstate(all="ignore"):
        result = np.asarray(SCALARS[name].evaluate(value))
        bound = SCALARS[name].spread([value], [np.array([np.inf, 0.0])], result)
    assert bound.tolist() == [np.inf, 0.0]


def test_bounds_are_sharp_for_small_errors() -> None:
    x, error = np.linspace(0.5, 2, 50), np.full(50, 1e-6)
    for name in ("exp", "log", "sqrt", "tanh", "erf", "sin", "recip", "tan"):
        function = SCALARS[name]
        result = np.asarray(function.evaluate(x))
        slope = (np.asarray(function.evaluate(x + 1e-6)) - result) / 1e-6
        bound = function.spread([x], [error], result)
        assert (bound <= 1e-6 * np.maximum(np.abs(slope), 1.0) * 1.01).all(), name
