"""Functions made of several, at the ends of the range of float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from tests.helpers.lazy import agree, compute

X = np.array(
    [0, -0.0, 1, -1, 1e-4, -3e-7, 0.5, 2.5, 3e5, -1e20, 3e38, np.inf, -np.inf, np.nan], np.float32
)


@pytest.mark.parametrize(
    ("function", "expected"),
    [(gg.acosh, np.arccosh), (gg.asinh, np.arcsinh), (gg.atanh, np.arctanh)],
)
def test_inverse_hyperbolic(
    function: Callable[[Any], gg.Array], expected: Callable[[Any], Any]
) -> None:
    with np.errstate(all="ignore"):
        agree(function(X), expected(X), absolute=0)


@pytest.mark.parametrize(
    ("function", "expected"),
    [(gg.hypot, np.hypot), (gg.logaddexp, np.logaddexp), (gg.copysign, np.copysign)],
)
def test_of_two(
    function: Callable[[Any, Any], gg.Array], expected: Callable[[Any, Any], Any]
) -> None:
    left, right = (axis.astype(np.float32) for axis in np.meshgrid(X, X[:-1]))
    with np.errstate(all="ignore"):
        agree(function(left, right), expected(left, right), absolute=0)
        agree(function(X, 2.0), expected(X, np.float32(2)), absolute=0)
        agree(function(-2.0, X[:-1]), expected(np.float32(-2), X[:-1]), absolute=0)


def test_the_next_float() -> None:
    for toward in (3.0, -np.inf):
        found = compute(gg.nextafter(X[:-1], toward))
        np.testing.assert_array_equal(found, np.nextafter(X[:-1], np.float32(toward)))


def test_signs_and_reals() -> None:
    np.testing.assert_array_equal(compute(gg.signbit(X[:-1])), np.signbit(X[:-1]))
    assert not compute(gg.signbit(np.array([2], np.int32)))[0]
    for function in (gg.positive, gg.conj, gg.real):
        np.testing.assert_array_equal(compute(function(X)), X)
