"""Elementwise functions beyond the array API standard, under the names of NumPy and SciPy.

Owns: a public function for each scalar function of the catalog that the standard has no name for.
All take lazy arrays or ndarrays, broadcast as in NumPy, and raise `CaptureError` with the
researcher's line when dtypes or shapes do not fit.
"""

from __future__ import annotations

from gpugoblin.capture.array import Array, ArrayLike, as_value, binary
from gpugoblin.capture.caller import caller
from gpugoblin.capture.dtypes import Number
from gpugoblin.capture.elementwise import elementwise

__all__ = [
    "bitwise_count",
    "bitwise_right_shift_unsigned",
    "cbrt",
    "digamma",
    "erfc",
    "erfinv",
    "fmax",
    "fmin",
    "lgamma",
    "round_bfloat16",
    "round_float16",
    "round_tf32",
    "sinc",
    "softplus",
    "truncate_divide",
    "xlogy",
]

Operand = ArrayLike | Number


def bitwise_count(x: ArrayLike) -> Array:
    """How many bits are set, of two's complement."""
    return _unary("popcount", x)


def bitwise_right_shift_unsigned(x1: Operand, x2: Operand) -> Array:
    """The bits of x1 moved down by x2, with zeros from above."""
    return binary("ushr", x1, x2)


def cbrt(x: ArrayLike) -> Array:
    """The cube root, of negative numbers too."""
    return _unary("cbrt", x)


def digamma(x: ArrayLike) -> Array:
    """The derivative of `lgamma`."""
    return _unary("digamma", x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), exact for large x."""
    return _unary("erfc", x)


def erfinv(x: ArrayLike) -> Array:
    """The number whose error function this is; infinite at -1 and 1."""
    return _unary("erfinv", x)


def fmax(x1: Operand, x2: Operand) -> Array:
    """The larger one; a NaN gives way to a number."""
    return binary("fmax", x1, x2)


def fmin(x1: Operand, x2: Operand) -> Array:
    """The smaller one; a NaN gives way to a number."""
    return binary("fmin", x1, x2)


def lgamma(x: ArrayLike) -> Array:
    """The logarithm of the size of the gamma function."""
    return _unary("lgamma", x)


def round_bfloat16(x: ArrayLike) -> Array:
    """The nearest number that bfloat16 has, as float32."""
    return _unary("round_bfloat16", x)


def round_float16(x: ArrayLike) -> Array:
    """The nearest number that float16 has, as float32."""
    return _unary("round_float16", x)


def round_tf32(x: ArrayLike) -> Array:
    """The nearest number that TF32 has, as float32."""
    return _unary("round_tf32", x)


def sinc(x: ArrayLike) -> Array:
    """sin(pi x) / (pi x), and 1 at 0."""
    return _unary("sinc", x)


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)) without overflow."""
    return _unary("softplus", x)


def truncate_divide(x1: Operand, x2: Operand) -> Array:
    """The quotient of integers without its fraction, as in C."""
    return binary("truncdiv", x1, x2)


def xlogy(x1: Operand, x2: Operand) -> Array:
    """x1 * log(x2), and 0 where x1 is 0."""
    return binary("xlogy", x1, x2)


def _unary(name: str, x: ArrayLike) -> Array:
    place = caller()
    return Array(elementwise(name, [as_value(x, place)], place))
