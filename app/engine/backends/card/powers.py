"""exp, log and what is made of them, in float32 additions and multiplications of our own.

Owns: these functions on a card. The driver's own are too inexact for the catalog's bounds, and
differ between drivers. Polynomials: Cephes Math Library (S. L. Moshier), single precision.
"""

from __future__ import annotations

from typing import Final

from app.engine.backends.card.kernel import Kernel, Value
from app.engine.backends.card.target import target

__all__ = [
    *("copy_sign", "cosh", "divide", "erf", "exp", "exp2", "expm1", "is_nan", "log", "log10"),
    *("log1p", "log2", "magnitude", "polynomial", "power", "reciprocal", "reciprocal_sqrt"),
    "scaled",
    *("sigmoid", "sinh", "sqrt", "tanh"),
]

_LN2_HIGH: Final = 0.693359375
_LN2_LOW: Final = -2.12194440e-4
_EXP: Final = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1),
    5.0000001201e-1,
)
_LOG: Final = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_SINH: Final = (2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1)
_TANH: Final = (
    *(-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1),
    -3.33332819422e-1,
)
# As in the catalog's own meaning of erf in float32.
_ERF_SMALL: Final = (
    *(8.212780536004299e-05, -8.105054511784184e-04, 5.197684914581588e-03),
    *(-2.6858042483012295e-02, 1.1283671041452731e-01, -3.7612632154014086e-01),
    1.283791664763396e-01,
)
_ERF_LARGE: Final = (
    *(1.6434872288648285e-06, -4.61780006554877e-05, 5.977610735749336e-04),
    *(-4.763749484945278e-03, 2.6431814387474915e-02, -1.1009649444347842e-01),
    *(-6.318116362772089e-01, -1.1302397910812763, 3.211113117433939e-04),
)
_INFINITY: Final = 0x7F800000


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's rule, the highest power first."""
    found = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        found = found * x + coefficient
    return found


def magnitude(x: Value) -> Value:
    return (x.bits("uint32") & 0x7FFFFFFF).bits("float32")


def copy_sign(x: Value, sign: Value) -> Value:
    low = x.bits("uint32") & 0x7FFFFFFF
    return (low | (sign.bits("uint32") & 0x80000000)).bits("float32")


def is_nan(x: Value) -> Value:
    """By its bits: a driver may take comparisons for granted that NaN breaks."""
    return (x.bits("uint32") & 0x7FFFFFFF) > _INFINITY


def _guarded(x: Value, result: Value) -> Value:
    return x.kernel.select(is_nan(x), x, result)


def _infinity(k: Kernel) -> Value:
    return k.pattern("float32", _INFINITY)


def _not_a_number(k: Kernel) -> Value:
    return k.pattern("float32", 0x7FC00000)


def _round(x: Value) -> Value:
    return x.kernel.extended("RoundEven", "float32", x)


def _power_of_two(n: Value) -> Value:
    """2^n for an int32 within the normal range."""
    return ((n + 127) << 23).bits("float32")


def scaled(y: Value, n: Value) -> Value:
    """y * 2^n, in two steps, so that the exponent may leave the range on the way."""
    half = n >> 1
    return y * _power_of_two(half) * _power_of_two(n - half)


def _clamped(x: Value, low: float, high: float) -> Value:
    k = x.kernel
    x = k.select(x < low, low, x)
    return k.select(x > high, high, x)


def _reduced(x: Value) -> tuple[Value, Value]:
    """x = n ln 2 + r: n as int32, and exp(r) - 1."""
    n = _round(x * 1.4426950408889634)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    return x.kernel.make("ConvertFToS", "int32", n), _less_one(r)


def _less_one(r: Value) -> Value:
    """exp(r) - 1 for |r| below 0.35, with a small relative error."""
    return polynomial(r, _EXP) * r * r + r


def exp(x: Value) -> Value:
    n, part = _reduced(_clamped(x, -104.0, 89.0))
    return _guarded(x, scaled(part + 1.0, n))


def _exp_inside(x: Value) -> Value:
    """exp of a number from -80 to 80, which is nowhere near the ends of the range."""
    n, part = _reduced(x)
    return (part + 1.0) * _power_of_two(n)


def exp2(x: Value) -> Value:
    k = x.kernel
    safe = _clamped(x, -151.0, 129.0)
    n = _round(safe)
    part = _less_one((safe - n) * 0.6931471805599453)
    return _guarded(x, scaled(part + 1.0, k.make("ConvertFToS", "int32", n)))


def expm1(x: Value) -> Value:
    k = x.kernel
    safe = _clamped(x, -30.0, 20.0)
    n, part = _reduced(safe)
    scale = _power_of_two(n)
    near = part * scale + (scale - 1.0)
    near = k.select(n.same(0), part, near)
    found = k.select(x > 15.0, exp(x) - 1.0, near)
    return _guarded(x, found)


def _log_parts(x: Value) -> tuple[Value, Value]:
    """x = 2^e (1 + f) with 1 + f about 1: e, and log(1 + f)."""
    k = x.kernel
    bits = x.bits("int32")
    e = (bits - 0x3F3504F3) >> 23
    f = (bits - (e << 23)).bits("float32") - 1.0
    return k.make("ConvertSToF", "float32", e), _log_near_one(f)


def _log_near_one(f: Value) -> Value:
    z = f * f
    return f + (polynomial(f, _LOG) * f * z - z * 0.5)


def _log_edges(x: Value, found: Value) -> Value:
    """Below the smallest normal number is 0, below that NaN."""
    k = x.kernel
    found = k.select(x < 1.17549435e-38, -_infinity(k), found)
    found = k.select(x < 0.0, _not_a_number(k), found)
    found = k.select(x.bits("uint32").same(_INFINITY), x, found)
    return _guarded(x, found)


def log(x: Value) -> Value:
    e, part = _log_parts(x)
    return _log_edges(x, part + e * _LN2_LOW + e * _LN2_HIGH)


def log2(x: Value) -> Value:
    e, part = _log_parts(x)
    return _log_edges(x, part * 1.4426950408889634 + e)


def log10(x: Value) -> Value:
    e, part = _log_parts(x)
    return _log_edges(x, part * 0.4342944819032518 + e * 0.3010299956639812)


def log1p(x: Value) -> Value:
    k = x.kernel
    near = (x > -0.29) & (x < 0.41)
    inside = k.select(near, x, 0.0)
    return k.select(near, _log_near_one(inside), log(x + 1.0))


def sqrt(x: Value) -> Value:
    k = x.kernel
    found = k.extended("Sqrt", "float32", x)
    return _guarded(x, k.select(x < 0.0, _not_a_number(k), found))


def reciprocal_sqrt(x: Value) -> Value:
    k = x.kernel
    found = k.extended("InverseSqrt", "float32", x)
    zero = magnitude(x) < 1.17549435e-38
    found = k.select(zero, copy_sign(_infinity(k), x), found)
    found = k.select((x < 0.0) & ~zero, _not_a_number(k), found)
    found = k.select(x.bits("uint32").same(_INFINITY), 0.0, found)
    return _guarded(x, found)


def divide(x: Value, y: Value) -> Value:
    """The quotient; some drivers promise one only for divisors well inside of the range."""
    k = x.kernel
    if target().divides:
        return x / y
    size = magnitude(y)
    large, small = size > 2.0**96, size < 2.0**-96
    scale = k.select(large, 2.0**-32, k.select(small, 2.0**32, 1.0, "float32"))
    found = x / (y * scale) * scale
    zero = size < 1.17549435e-38
    infinite = size.bits("uint32").same(_INFINITY)
    sign = (x.bits("uint32") ^ y.bits("uint32")).bits("float32")
    nothing = magnitude(x) < 1.17549435e-38
    at_zero = k.select(nothing, _not_a_number(k), copy_sign(_infinity(k), sign))
    at_end = k.select(
        magnitude(x).bits("uint32").same(_INFINITY), _not_a_number(k), copy_sign(x * 0.0, sign)
    )
    found = k.select(zero, at_zero, k.select(infinite, at_end, found))
    return _guarded(x, _guarded(y, found))


def reciprocal(x: Value) -> Value:
    return divide(x.kernel.number("float32", 1.0), x)


def sinh(x: Value) -> Value:
    k = x.kernel
    z = x * x
    near = polynomial(z, _SINH) * z * x + x
    size = magnitude(x)
    half = exp(size * 0.5)
    far = (half * 0.5) * half - reciprocal(half * half) * 0.5
    return _guarded(x, k.select(size < 1.0, near, copy_sign(far, x)))


def cosh(x: Value) -> Value:
    half = exp(magnitude(x) * 0.5)
    return _guarded(x, (half * 0.5) * half + reciprocal(half * half) * 0.5)


def tanh(x: Value) -> Value:
    k = x.kernel
    size = magnitude(x)
    z = x * x
    near = polynomial(z, _TANH) * z * x + x
    twice = _exp_inside(_clamped(size, 0.0, 20.0) * 2.0)
    far = -(k.number("float32", 2.0) / (twice + 1.0)) + 1.0
    return _guarded(x, k.select(size < 0.625, near, copy_sign(far, x)))


def erf(x: Value) -> Value:
    k = x.kernel
    size = magnitude(x)
    size = k.select(size > 4.0, 4.0, size)
    small = polynomial(size * size, _ERF_SMALL)
    large = -_exp_inside(polynomial(size, _ERF_LARGE)) + 1.0
    found = k.select(size < 0.93, size + size * small, large)
    return _guarded(x, copy_sign(found, x))


def sigmoid(x: Value) -> Value:
    return reciprocal(exp(-x) + 1.0)


def power(x: Value, y: Value) -> Value:
    """As C's pow: its special cases after 2^(y log2 |x|)."""
    k = x.kernel
    size = magnitude(x)
    logarithm = log2(size)
    found = exp2(y * logarithm)
    whole = k.extended("Floor", "float32", y).same(y)
    half = y * 0.5
    odd = whole & k.extended("Floor", "float32", half).differs(half) & (magnitude(y) < 2.0**24)
    negative = (x.bits("uint32") >> 31).differs(0)
    found = k.select(negative & odd, copy_sign(found, x), found)
    proper = size > 0.0
    finite = magnitude(x).bits("uint32") < _INFINITY
    found = k.select(negative & proper & finite & ~whole, _not_a_number(k), found)
    endless = magnitude(y).bits("uint32").same(_INFINITY)
    found = k.select(size.same(1.0) & endless, 1.0, found)
    found = _guarded(x, _guarded(y, found))
    one = x.same(1.0) | y.same(0.0)
    return k.select(one, 1.0, found)
