"""Each row of coefficients against the function that it was fitted to, on its whole range. What is
allowed is the error that stands beside it, and half as much again for the test's own places."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from gpugoblin.catalog import polynomials
from gpugoblin.catalog.spec import Array

COUNT = 2_000


def fitted(name: str, at: Array) -> Array:
    return np.polyval(np.array(getattr(polynomials, name), np.longdouble), at)


def places(low: float, high: float) -> Array:
    """Not at the ends, where quotients such as (sin(x) / x - 1) / x^2 lose their digits."""
    return np.linspace(low, high, COUNT, dtype=np.longdouble)


def erf(x: Array) -> Array:
    return np.array([math.erf(float(one)) for one in x], np.longdouble)


def erfc(x: Array) -> Array:
    return np.array([math.erfc(float(one)) for one in x], np.longdouble)


CASES: dict[str, tuple[float, Callable[[], Array]]] = {
    # name: (the error allowed, relative error of the function that the row serves)
    "SIN": (1e-8, lambda: _sine(places(1e-3, math.pi / 4))),
    "COS": (1e-9, lambda: _cosine(places(1e-3, math.pi / 4))),
    "ATAN": (1e-8, lambda: _arc(places(1e-3, math.tan(math.pi / 8)))),
    "EXP": (1e-8, lambda: _power(places(-0.3466, 0.3466))),
    "LOG": (3e-8, lambda: _logarithm(places(math.sqrt(0.5), math.sqrt(2.0)))),
    "TANH": (3e-8, lambda: _tangent(places(1e-3, 0.625))),
}


def _sine(x: Array) -> Array:
    return (fitted("SIN", x * x) * x * x * x + x) / np.sin(x) - 1


def _cosine(x: Array) -> Array:
    return (fitted("COS", x * x) * x**4 - x * x / 2 + 1) / np.cos(x) - 1


def _arc(x: Array) -> Array:
    return (fitted("ATAN", x * x) * x * x * x + x) / np.arctan(x) - 1


def _power(x: Array) -> Array:
    return (fitted("EXP", x) * x * x + x + 1) / np.exp(x) - 1


def _logarithm(x: Array) -> Array:
    """Weighed by the size of the logarithm; at 1, where it is 0, it is exact."""
    rest = x - 1
    rest = rest[np.abs(rest) > 1e-4]
    return (fitted("LOG", rest) * rest**3 - rest * rest / 2 + rest) / np.log1p(rest) - 1


def _tangent(x: Array) -> Array:
    return (fitted("TANH", x * x) * x * x * x + x) / np.tanh(x) - 1


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_its_function(name: str) -> None:
    most, error = CASES[name]
    worst = float(np.abs(error()).max())
    assert 0.0 < worst < most


def test_every_coefficient_is_a_float32() -> None:
    for name in polynomials.__all__:
        row = getattr(polynomials, name)
        assert len(row) >= 3, name
        assert all(float(np.float32(one)) == one for one in row), name


def test_the_last_coefficient_is_the_series_own() -> None:
    """Where a row begins with the first term that it serves, that is Taylor's within its error."""
    assert polynomials.ATAN[-1] == pytest.approx(-1 / 3, rel=1e-6)
    assert polynomials.COS[-1] == pytest.approx(1 / 24, rel=1e-6)
    assert polynomials.SIN[-1] == pytest.approx(-1 / 6, rel=1e-6)
    assert polynomials.EXP[-1] == pytest.approx(1 / 2, rel=1e-6)
    assert polynomials.TANH[-1] == pytest.approx(-1 / 3, rel=1e-4)
