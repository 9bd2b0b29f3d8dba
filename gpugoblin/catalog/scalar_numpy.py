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
    "bits_float",
    "clamp",
    "copysign",
    "count_bits",
    "erf",
    "float_bits",
    "floor_divide",
    "floor_modulo",
    "log_sum",
    "next_after",
    "power",
    "reciprocal",
    "reciprocal_sqrt",
    "round_bfloat16",
    "round_float16",
    "round_tf32",
    "shift_left",
    "shift_right",
    "shift_right_logical",
    "sigmoid",
    "sign_bit",
    "softplus",
    "truncated_divide",
    "truncated_modulo",
    "x_log_y",
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
    shifted = np.right_shift(left, np.where(valid, right, left.dtype.type(width - 1)))
    if left.dtype.kind == "u":
        return np.where(valid, shifted, left.dtype.type(0))
    return np.asarray(shifted)


def shift_right_logical(left: Array, right: Array) -> Array:
    """The bits of x shifted right, zeros behind; 0 where n is negative or at least the width."""
    unsigned = np.dtype(f"u{left.dtype.itemsize}")
    width = left.dtype.itemsize * 8
    valid = (right >= 0) & (right < width)
    places = np.where(valid, right, 0).astype(unsigned)
    shifted = np.right_shift(left.view(unsigned), places).view(left.dtype)
    return np.asarray(np.where(valid, shifted, left.dtype.type(0)))


def truncated_divide(left: Array, right: Array) -> Array:
    """Integers: the quotient rounded toward zero; 0 where the divisor is 0; the least value over -1
    wraps to itself."""
    down = floor_divide(left, right)
    with np.errstate(all="ignore"):
        rest = left - down * right
    one = left.dtype.type(1)
    return np.where((right != 0) & (rest != 0) & ((left < 0) != (right < 0)), down + one, down)


def count_bits(value: Array) -> Array:
    """How many bits of an integer's two's complement are set."""
    unsigned = value.view(np.dtype(f"u{value.dtype.itemsize}"))
    return np.asarray(np.bitwise_count(unsigned)).astype(value.dtype)


def float_bits(value: Array) -> Array:
    """The bit pattern of a float32, as int32; every NaN has one, 0x7FC00000."""
    narrow = np.ascontiguousarray(value, np.float32).reshape(value.shape)
    return np.where(np.isnan(narrow), np.int32(0x7FC00000), narrow.view(np.int32))


def bits_float(value: Array) -> Array:
    """The float32 of a bit pattern."""
    return np.ascontiguousarray(value).reshape(value.shape).view(np.float32)


def clamp(value: Array, low: Array, high: Array) -> Array:
    """min(max(x, low), high): NaN where any is; `high` where the limits are crossed."""
    return np.asarray(np.minimum(np.maximum(value, low), high))


def copysign(value: Array, sign: Array) -> Array:
    """|x| with the sign of y; NaN counts as positive."""
    return np.asarray(np.copysign(value, np.where(np.isnan(sign), np.abs(sign), sign)))


def sign_bit(value: Array) -> Array:
    """Is the sign set? Zeros have one; NaN counts as positive."""
    return np.asarray(np.signbit(value) & ~np.isnan(value))


def next_after(value: Array, toward: Array) -> Array:
    """The next number of the dtype from x toward y."""
    with np.errstate(all="ignore"):
        return np.asarray(np.nextafter(value, toward))


def softplus(value: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    with np.errstate(all="ignore"):
        return np.asarray(np.maximum(value, 0) + np.log1p(np.exp(-np.abs(value))))


def log_sum(left: Array, right: Array) -> Array:
    """log(exp(x) + exp(y)), without overflow; equal infinities give themselves."""
    with np.errstate(all="ignore"):
        return np.asarray(np.logaddexp(left, right))


def x_log_y(left: Array, right: Array) -> Array:
    """x log y; 0 where x is 0 and y is a number."""
    with np.errstate(all="ignore"):
        product = left * np.log(right)
    return np.where((left == 0) & ~np.isnan(right), left.dtype.type(0), product)


def _round_bits(value: Array, dropped: int) -> Array:
    narrow = value.dtype == np.float32
    width = dropped if narrow else dropped + 29
    bits: Array = np.ascontiguousarray(value).reshape(value.shape)
    bits = bits.view(np.int32 if narrow else np.int64)
    odd = np.bitwise_and(np.right_shift(bits, width), 1)
    kept = np.bitwise_and(bits + ((1 << (width - 1)) - 1) + odd, -(1 << width))
    return np.where(np.isnan(value), value, kept.view(value.dtype))


def round_tf32(value: Array) -> Array:
    """To 10 bits behind the point, ties to even, with the range of float32."""
    return _in_range(_round_bits(value, 13), 2.0**-136)


def round_bfloat16(value: Array) -> Array:
    """To bfloat16: 7 bits behind the point, ties to even, with the range of float32."""
    return _in_range(_round_bits(value, 16), 2.0**-133)


def _in_range(rounded: Array, least: float) -> Array:
    """float64 has smaller numbers than the format: they are multiples of `least`."""
    if rounded.dtype == np.float32:
        return rounded
    small = np.abs(rounded) < 2.0**-126
    return np.where(small, np.rint(rounded / least) * least, rounded)


def round_float16(value: Array) -> Array:
    """To float16: 10 bits behind the point, ties to even, steps of 2^-24 below 2^-14, infinity
    from 65520 on."""
    with np.errstate(all="ignore"):
        return np.asarray(value.astype(np.float16).astype(value.dtype))
