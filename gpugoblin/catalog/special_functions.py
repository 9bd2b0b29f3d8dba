"""Special functions in float64: the references of the scalar functions that NumPy lacks.

Owns: their values, to about 1e-14 of the result (absolute near a zero). float32 in gives float32
out, computed in float64 between: these are also what the processor's backend evaluates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from gpugoblin.catalog.spec import Array

__all__ = ["digamma", "erfc", "erfinv", "log_gamma", "sinc"]

_exact_erfc = np.frompyfunc(math.erfc, 1, 1)

# Bernoulli numbers B(2n) / (2n) and B(2n) / (2n (2n - 1)), n from 8 down to 1.
_DIGAMMA: Final = (
    -3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12,
)  # fmt: skip
_SHIFT: Final = 12


def _in_float64(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def evaluate(value: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(value.astype(np.float64)).astype(value.dtype))

    return evaluate


def _log_gamma_of(value: float) -> float:
    if math.isinf(value) or (value <= 0 and value == math.floor(value)):
        return math.inf
    return math.lgamma(value)


_plain_log_gamma = np.frompyfunc(_log_gamma_of, 1, 1)


@_in_float64
def erfc(value: Array) -> Array:
    """1 - erf(x), without cancellation."""
    return np.asarray(_exact_erfc(value), np.float64)


@_in_float64
def log_gamma(value: Array) -> Array:
    """log |gamma(x)|; infinite at 0, the negative integers and both infinities."""
    return np.asarray(_plain_log_gamma(value), np.float64)


@_in_float64
def digamma(value: Array) -> Array:
    """The derivative of log gamma. NaN at the negative integers and at -infinity; a zero gives the
    infinity of the other sign. Shifted to 12 and above, then the asymptotic series (M. Abramowitz
    and I. Stegun, 6.3.18); reflected below 1/2 (6.3.7)."""
    mirrored = value < 0.5
    at = np.where(mirrored, 1.0 - value, value)
    steps = np.zeros_like(at)
    for _ in range(_SHIFT):
        low = at < _SHIFT
        steps = np.where(low, steps + 1.0 / at, steps)
        at = np.where(low, at + 1.0, at)
    square = 1.0 / (at * at)
    series = np.zeros_like(at)
    for coefficient in _DIGAMMA:
        series = (series + coefficient) * square
    result: Array = np.log(at) - 0.5 / at - series - steps
    angle = np.pi * (value - np.rint(value))
    result = np.where(mirrored, result - np.pi / np.tan(angle), result)
    result = np.where((value < 0) & (value == np.floor(value)), np.nan, result)
    return np.where(value == 0, np.copysign(np.inf, -value), result)


@_in_float64
def erfinv(value: Array) -> Array:
    """The inverse of erf: a start by S. Winitzki (2008), then Newton's iteration on erfc of what is
    left to 1, whose second derivative makes it cubic (Halley)."""
    size = np.abs(value)
    inside = np.where(size < 1.0, size, 0.0)
    log = np.log1p(-inside * inside)
    first = 2.0 / (np.pi * 0.147) + log / 2.0
    guess: Array = np.sqrt(np.sqrt(first * first - log / 0.147) - first)
    for _ in range(3):
        rest: Any = np.asarray(_exact_erfc(guess), np.float64) - (1.0 - inside)
        step = rest * (np.sqrt(np.pi) / 2.0) * np.exp(guess * guess)
        guess = guess + step / (1.0 - guess * step)
    # Small arguments: the complement cancels, the series does not.
    series = size * (np.sqrt(np.pi) / 2.0) * (1.0 + np.pi / 12.0 * size * size)
    guess = np.where(size < 1e-4, series, guess)
    guess = np.where(size == 1.0, np.inf, np.where(size <= 1.0, guess, np.nan))
    return np.copysign(guess, value)


@_in_float64
def sinc(value: Array) -> Array:
    """sin(pi x) / (pi x); 1 at 0."""
    angle = np.pi * value
    return np.where(value == 0, 1.0, np.sin(angle) / np.where(value == 0, 1.0, angle))
