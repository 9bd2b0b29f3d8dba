"""exp, log, tanh, erf and their kin as trees of basic arithmetic.

Owns: the evaluation that the exact class means, and what any backend may print where it has no such
function. Errors, measured over all float32: `tests/unit/gpugoblin/catalog/test_lowering.py`.

exp: n = round(x log2 e), x - n ln 2 in two parts of which the first times n is exact, a polynomial,
and 2^n by bits in two factors, so that results below 2^-126 round once. log: the exponent by bits,
a polynomial for the mantissa in [sqrt(1/2), sqrt(2)). The method is that of the Cephes library (S.
L. Moshier, Methods and Programs for Mathematical Functions, 1989); the coefficients are our own.
"""

from __future__ import annotations

import math
from typing import Final

from gpugoblin.catalog import polynomials as fitted
from gpugoblin.catalog.terms import Term, horner, select

__all__ = [
    "cosh", "erf", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "log_sum", "power",
    "sigmoid", "sinh", "softplus", "tanh", "x_log_y",
]  # fmt: skip

LN2_HIGH: Final = 0.693359375
"""9 bits: its product with an exponent is exact."""
LN2_LOW: Final = math.log(2.0) - LN2_HIGH
ROOT_HALF_BITS: Final = 0x3F3504F3
TINY: Final = 2.0**-126


def exp(x: Term) -> Term:
    held = x.call("max", -104.0).call("min", 89.0)
    whole = (held * (1.0 / math.log(2.0))).call("round")
    rest = (held - whole * LN2_HIGH) - whole * LN2_LOW
    value = (horner(rest, fitted.EXP) * (rest * rest) + rest) + 1.0
    power = whole.cast("int32")
    half = power >> 1
    first = ((half + 127) << 23).from_bits()
    second = (((power - half) + 127) << 23).from_bits()
    return (value * first) * second


def log(x: Term) -> Term:
    small = x < TINY
    scaled = select(small, x * 2.0**23, x)
    bits = scaled.bits()
    power = (bits - ROOT_HALF_BITS) >> 23
    rest = (bits - (power << 23)).from_bits() - 1.0
    whole = power.cast("float32") + select(small, x.const(-23.0), 0.0)
    square = rest * rest
    curve = (horner(rest, fitted.LOG) * rest) * square - square * 0.5
    value = whole * LN2_HIGH + (rest + (curve + whole * LN2_LOW))
    value = select(x < math.inf, value, x)  # infinity and NaN stay
    value = select(x.equals(0.0), -math.inf, value)
    return select(x < 0.0, math.nan, value)


def exp2(x: Term) -> Term:
    """2^n times exp of the rest."""
    held = x.call("max", -151.0).call("min", 129.0)
    whole = held.call("round")
    rest = (held - whole) * math.log(2.0)
    value = (horner(rest, fitted.EXP) * (rest * rest) + rest) + 1.0
    power = whole.cast("int32")
    half = power >> 1
    first = ((half + 127) << 23).from_bits()
    return (value * first) * (((power - half) + 127) << 23).from_bits()


def expm1(x: Term) -> Term:
    small = x + (x * x) * horner(x, fitted.EXPM1)
    value = select(abs(x) < 0.5, small, exp(x) - 1.0)
    return select(x.equals(0.0), x, value)  # -0.0 plus the square would be 0.0


def log1p(x: Term) -> Term:
    """log(u) x / (u - 1) for u = 1 + x, which undoes what u lost (W. Kahan)."""
    above = x + 1.0
    step = above - 1.0
    value = log(above) * (x / step)
    value = select(above < math.inf, value, above)
    value = select(step.equals(-1.0), -math.inf, value)
    return select(step.equals(0.0), x, value)


def log2(x: Term) -> Term:
    return log(x) * (1.0 / math.log(2.0))


def log10(x: Term) -> Term:
    return log(x) * (1.0 / math.log(10.0))


def sigmoid(x: Term) -> Term:
    return 1.0 / (exp(-x) + 1.0)


def softplus(x: Term) -> Term:
    return x.call("max", 0.0) + log1p(exp(-abs(x)))


def log_sum(x: Term, y: Term) -> Term:
    """log(e^x + e^y); equal infinities give themselves."""
    distance = select(x.equals(y), 0.0, abs(x - y))
    return x.call("max", y) + log1p(exp(-distance))


def x_log_y(x: Term, y: Term) -> Term:
    """x log y; 0 where x is 0 and y is a number."""
    flat = x.equals(0.0) & y.equals(y)
    return select(flat, 0.0, x * log(y))


def tanh(x: Term) -> Term:
    size = abs(x)
    square = x * x
    small = x + x * (square * horner(square, fitted.TANH))
    large = 1.0 - 2.0 / (exp(size.call("min", 10.0) * 2.0) + 1.0)
    value = select(size < 0.625, small, select(x < 0.0, -large, large))
    return select(x.equals(0.0), x, value)


def sinh(x: Term) -> Term:
    """From expm1 up to 1; above, half of exp in two factors, as exp overflows before sinh."""
    size = abs(x)
    near = expm1(size)
    small = (near + near / (near + 1.0)) * 0.5
    half = exp(size * 0.5)
    large = (half * 0.5) * half - 0.5 / (half * half)
    value = select(size < 1.0, small, large)
    return select(x < 0.0, -value, select(x.equals(0.0), x, value))


def cosh(x: Term) -> Term:
    half = exp(abs(x) * 0.5)
    return (half * 0.5) * half + 0.5 / (half * half)


def erf(x: Term) -> Term:
    size = abs(x).call("min", 4.0)
    square = size * size
    small = x + x * horner(square, fitted.ERF_SMALL)
    large = 1.0 - exp(horner(size, fitted.ERF_LARGE))
    return select(size < 0.93, small, select(x < 0.0, -large, large))


def power(x: Term, y: Term) -> Term:
    """exp(y log |x|) with the sign and the special values of C's pow (ISO C, annex F.10.4.4)."""
    size = abs(x)
    value = exp(y * log(size))
    value = select(size.equals(1.0) & y.equals(y), 1.0, value)
    whole = y.call("floor").equals(y)
    half = y * 0.5
    odd = whole & half.call("floor").call("ne", half)
    value = select(x.call("signbit") & odd, -value, value)
    finite = (size < math.inf) & (size > 0.0)
    nowhere = (x < 0.0) & finite & whole.call("not")
    value = select(nowhere, math.nan, value)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, value)
