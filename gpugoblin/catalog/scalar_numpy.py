"""NumPy meanings of the scalar functions that are not one ufunc.

Owns: the defined results where NumPy warns, raises or has no function. Every function takes arrays
of one dtype and computes in that dtype: float32 for an engine, float64 for the reference.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpugoblin.catalog.spec import Array

__all__ = [
    "erf",
    "floor_divide",
    "floor_modulo",
    "power",
    "reciprocal",
    "reciprocal_sqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "truncated_modulo",
]

# Interpolation of erf(x) / x - 1 in x * x on [0, 0.9], and of log(erfc(x)) on [0.93, 4], both at
# Chebyshev points. Together at most 1.2 units in the last place of float32.
_ERF_SMALL: Final = (
    8.212780536004299e-05,
    -8.105054511784184e-04,
    5.197684914581588e-03,
    -2.6858042483012295e-02,
    1.1283671041452731e-01,
    -3.7612632154014086e-01,
    1.283791664763396e-01,
)
_ERF_LARGE: Final = (
    1.6434872288648285e-06,
    -4.61780006554877e-05,
    5.977610735749336e-04,
    -4.763749484945278e-03,
    2.6431814387474915e-02,
    -1.1009649444347842e-01,
    -6.318116362772089e-01,
    -1.1302397910812763,
    3.211113117433939e-04,
)
_ERF_EDGE: Final = 0.93

_exact_erf = np.frompyfunc(math.erf, 1, 1)


def erf(value: Array) -> Array:
    """The error function: exact to the last place in float64, to 2 places in float32."""
    if value.dtype == np.float64:
        return np.asarray(_exact_erf(value), np.float64)
    size = np.minimum(np.abs(value), np.float32(4))
    square = size * size
    small = np.full_like(size, _ERF_SMALL[0])
    for coefficient in _ERF_SMALL[1:]:
        small = small * square + np.float32(coefficient)
    large = np.full_like(size, _ERF_LARGE[0])
    for coefficient in _ERF_LARGE[1:]:
        large = large * size + np.float32(coefficient)
    large = np.float32(1) - np.exp(large)
    return np.copysign(np.where(size < _ERF_EDGE, size + size * small, large), value)


def sigmoid(value: Array) -> Array:
    """1 / (1 + exp(-x)); 0 and 1 at the infinities."""
    one = value.dtype.type(1)
    with np.errstate(all="ignore"):
        return np.asarray(one / (one + np.exp(-value)))


def reciprocal(value: Array) -> Array:
    """1 / x; a signed infinity at a signed zero."""
    with np.errstate(all="ignore"):
        return np.asarray(value.dtype.type(1) / value)


def reciprocal_sqrt(value: Array) -> Array:
    """1 / sqrt(x); NaN below zero."""
    with np.errstate(all="ignore"):
        return np.asarray(value.dtype.type(1) / np.sqrt(value))


def floor_divide(left: Array, right: Array) -> Array:
    """Integers: the quotient rounded down; 0 where the divisor is 0; the least value over -1
    wraps to itself."""
    with np.errstate(all="ignore"):
        quotient = np.asarray(np.floor_divide(left, right))
    return np.where(right == 0, left.dtype.type(0), quotient)


def floor_modulo(left: Array, right: Array) -> Array:
    """The remainder with the sign of the divisor; divisor 0 gives 0 (integers) or NaN (floats)."""
    return _remainder(np.mod, left, right)


def truncated_modulo(left: Array, right: Array) -> Array:
    """The remainder with the sign of the dividend; divisor 0 gives 0 (integers) or NaN (floats)."""
    return _remainder(np.fmod, left, right)


def _remainder(function: np.ufunc, left: Array, right: Array) -> Array:
    with np.errstate(all="ignore"):
        result = np.asarray(function(left, right))
    if left.dtype.kind == "f":
        return result
    return np.where((right == 0) | (right == -1), left.dtype.type(0), result)


def power(left: Array, right: Array) -> Array:
    """Floats as C's pow. Integers wrap; a negative exponent gives the exact quotient rounded
    toward zero (1 for base 1, 1 or -1 for base -1, else 0), and 0 for base 0."""
    with np.errstate(all="ignore"):
        if left.dtype.kind == "f":
            return np.asarray(np.power(left, right))
        result = np.asarray(np.power(left, np.maximum(right, 0)))
    one = left.dtype.type(1)
    inverse = np.where(left == 1, one, left.dtype.type(0))
    inverse = np.where(left == -1, np.where(right & 1, -one, one), inverse)
    return np.where(right < 0, inverse, result)


def shift_left(left: Array, right: Array) -> Array:
    """x * 2^n, wrapped; 0 where n is negative or at least the width."""
    zero = left.dtype.type(0)
    valid = (right >= 0) & (right < left.dtype.itemsize * 8)
    return np.where(valid, np.left_shift(left, np.where(valid, right, zero)), zero)


def shift_right(left: Array, right: Array) -> Array:
    """floor(x / 2^n); an n that is negative or at least the width gives the sign, 0 or -1."""
    width = left.dtype.itemsize * 8
    valid = (right >= 0) & (right < width)
    return np.asarray(np.right_shift(left, np.where(valid, right, left.dtype.type(width - 1))))
