"""Elementwise primitives, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the extra jax is not installed")

import gpugoblin as gg  # noqa: E402
from gpugoblin.errors import CaptureError  # noqa: E402
from tests.helpers.lazy import compute  # noqa: E402

lax = jax.lax
HALF = np.linspace(0.1, 0.9, 7, dtype=np.float32)
ONE = ["abs", "acos", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "digamma",
       "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "is_finite", "lgamma", "log",
       "log1p", "logistic", "neg", "rsqrt", "sign", "sin", "sinh", "sqrt", "square",
       "tan", "tanh"]  # fmt: skip
TWO = ["add", "atan2", "div", "eq", "ge", "gt", "le", "lt", "max", "min", "mul", "ne", "pow",
       "rem", "sub"]  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_of_one(name: str) -> None:
    f = getattr(lax, name)
    np.testing.assert_allclose(compute(gg.from_jax(f, HALF)), f(HALF), rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("name", TWO)
def test_of_two(name: str) -> None:
    f, other = getattr(lax, name), HALF[::-1].copy()
    found = compute(gg.from_jax(f, HALF, other))
    np.testing.assert_allclose(found, f(HALF, other), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("power", [-3, -1, 0, 1, 2, 7])
def test_whole_powers(power: int) -> None:
    found = compute(gg.from_jax(lambda x: lax.integer_pow(x, power), HALF))
    np.testing.assert_allclose(found, HALF**power, rtol=1e-5)


@pytest.mark.parametrize("method", [0, 1])
def test_rounding(method: int) -> None:
    x, how = np.array([0.5, 1.5, -2.5, 0.4], np.float32), lax.RoundingMethod(method)
    np.testing.assert_array_equal(
        compute(gg.from_jax(lambda v: lax.round(v, how), x)), lax.round(x, how)
    )


def test_integers() -> None:
    x, y = np.array([7, -7, 9], np.int32), np.array([2, 2, -4], np.int32)
    for f in (lax.div, lax.rem, lax.bitwise_and):
        np.testing.assert_array_equal(compute(gg.from_jax(f, x, y)), f(x, y))
    clamped = compute(gg.from_jax(lambda v: lax.clamp(-1, v, 8), x))
    np.testing.assert_array_equal(clamped, [7, -1, 8])


def test_nothing_goes_back_through_a_stopped_gradient() -> None:
    """A straight-through estimator, as JAX programs write one."""
    x = gg.array(HALF)

    def f(v: Any) -> Any:
        return (v + lax.stop_gradient(jax.numpy.sin(v) - v)) * lax.stop_gradient(v)

    found = gg.from_jax(f, x)
    np.testing.assert_allclose(compute(found), np.sin(HALF) * HALF, rtol=1e-5)
    expected = jax.grad(lambda v: f(v).sum())(HALF)
    np.testing.assert_allclose(compute(gg.gradient(found.sum(), x)), expected, rtol=1e-5)


@pytest.mark.parametrize("bits", [(8, 7), (5, 10), (8, 23)])
def test_precision_is_reduced(bits: tuple[int, int]) -> None:
    found = compute(gg.from_jax(lambda v: lax.reduce_precision(v, *bits) * 1, HALF))
    np.testing.assert_array_equal(found, lax.reduce_precision(HALF, *bits))


def test_a_precision_that_the_catalog_lacks_is_refused() -> None:
    with pytest.raises(CaptureError, match="4 bits of exponent and 3 of mantissa"):
        gg.from_jax(lambda v: lax.reduce_precision(v, 4, 3), HALF)
