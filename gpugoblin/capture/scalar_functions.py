"""Elementwise functions under the names of the Python array API standard.

Owns: a public function for each scalar function of the catalog. All take lazy arrays or ndarrays
(beside one of them also Python numbers), broadcast as in NumPy, and raise `CaptureError` with the
researcher's line when dtypes or shapes do not fit.
"""

from __future__ import annotations

from gpugoblin.capture.array import Array, ArrayLike, as_value, binary
from gpugoblin.capture.caller import caller
from gpugoblin.capture.dtypes import Number
from gpugoblin.capture.elementwise import elementwise

__all__ = [
    "abs",
    "acos",
    "add",
    "asin",
    "atan",
    "atan2",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

Operand = ArrayLike | Number


def abs(x: ArrayLike) -> Array:
    """The size without the sign."""
    return _unary("abs", x)


def acos(x: ArrayLike) -> Array:
    """The angle whose cosine this is, in radians."""
    return _unary("acos", x)


def add(x1: Operand, x2: Operand) -> Array:
    """x1 + x2."""
    return binary("add", x1, x2)


def asin(x: ArrayLike) -> Array:
    """The angle whose sine this is, in radians."""
    return _unary("asin", x)


def atan(x: ArrayLike) -> Array:
    """The angle whose tangent this is, in radians."""
    return _unary("atan", x)


def atan2(x1: Operand, x2: Operand) -> Array:
    """The angle of the point (x2, x1), in radians."""
    return binary("atan2", x1, x2)


def bitwise_and(x1: Operand, x2: Operand) -> Array:
    """Bits that both have."""
    return binary("and", x1, x2)


def bitwise_invert(x: ArrayLike) -> Array:
    """All bits turned over; logical not of bools."""
    return _unary("not", x)


def bitwise_left_shift(x1: Operand, x2: Operand) -> Array:
    """x1 * 2**x2, wrapped."""
    return binary("shl", x1, x2)


def bitwise_or(x1: Operand, x2: Operand) -> Array:
    """Bits that either has."""
    return binary("or", x1, x2)


def bitwise_right_shift(x1: Operand, x2: Operand) -> Array:
    """x1 // 2**x2."""
    return binary("shr", x1, x2)


def bitwise_xor(x1: Operand, x2: Operand) -> Array:
    """Bits that one has."""
    return binary("xor", x1, x2)


def ceil(x: ArrayLike) -> Array:
    """The next whole number up."""
    return _unary("ceil", x)


def cos(x: ArrayLike) -> Array:
    """The cosine of radians."""
    return _unary("cos", x)


def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine."""
    return _unary("cosh", x)


def divide(x1: Operand, x2: Operand) -> Array:
    """x1 / x2, of floats."""
    return binary("div", x1, x2)


def equal(x1: Operand, x2: Operand) -> Array:
    """True where equal."""
    return binary("eq", x1, x2)


def erf(x: ArrayLike) -> Array:
    """The error function."""
    return _unary("erf", x)


def exp(x: ArrayLike) -> Array:
    """e to each element."""
    return _unary("exp", x)


def exp2(x: ArrayLike) -> Array:
    """2 to each element."""
    return _unary("exp2", x)


def expm1(x: ArrayLike) -> Array:
    """exp(x) - 1, exact near 0."""
    return _unary("expm1", x)


def floor(x: ArrayLike) -> Array:
    """The next whole number down."""
    return _unary("floor", x)


def floor_divide(x1: Operand, x2: Operand) -> Array:
    """x1 / x2 rounded down."""
    return binary("floordiv", x1, x2)


def fmod(x1: Operand, x2: Operand) -> Array:
    """The remainder with the sign of x1."""
    return binary("fmod", x1, x2)


def greater(x1: Operand, x2: Operand) -> Array:
    """True where x1 > x2."""
    return binary("gt", x1, x2)


def greater_equal(x1: Operand, x2: Operand) -> Array:
    """True where x1 >= x2."""
    return binary("ge", x1, x2)


def isfinite(x: ArrayLike) -> Array:
    """True where neither infinite nor NaN."""
    return _unary("isfinite", x)


def isinf(x: ArrayLike) -> Array:
    """True where infinite."""
    return _unary("isinf", x)


def isnan(x: ArrayLike) -> Array:
    """True where NaN."""
    return _unary("isnan", x)


def less(x1: Operand, x2: Operand) -> Array:
    """True where x1 < x2."""
    return binary("lt", x1, x2)


def less_equal(x1: Operand, x2: Operand) -> Array:
    """True where x1 <= x2."""
    return binary("le", x1, x2)


def log(x: ArrayLike) -> Array:
    """The natural logarithm."""
    return _unary("log", x)


def log10(x: ArrayLike) -> Array:
    """The logarithm to base 10."""
    return _unary("log10", x)


def log1p(x: ArrayLike) -> Array:
    """log(1 + x), exact near 0."""
    return _unary("log1p", x)


def log2(x: ArrayLike) -> Array:
    """The logarithm to base 2."""
    return _unary("log2", x)


def logical_and(x1: Operand, x2: Operand) -> Array:
    """Both, of bools."""
    return binary("and", x1, x2)


def logical_not(x: ArrayLike) -> Array:
    """Not, of bools."""
    return _unary("not", x)


def logical_or(x1: Operand, x2: Operand) -> Array:
    """Either, of bools."""
    return binary("or", x1, x2)


def logical_xor(x1: Operand, x2: Operand) -> Array:
    """Exactly one, of bools."""
    return binary("xor", x1, x2)


def maximum(x1: Operand, x2: Operand) -> Array:
    """The larger one; NaN wins."""
    return binary("max", x1, x2)


def minimum(x1: Operand, x2: Operand) -> Array:
    """The smaller one; NaN wins."""
    return binary("min", x1, x2)


def multiply(x1: Operand, x2: Operand) -> Array:
    """x1 * x2."""
    return binary("mul", x1, x2)


def negative(x: ArrayLike) -> Array:
    """Minus each element."""
    return _unary("neg", x)


def not_equal(x1: Operand, x2: Operand) -> Array:
    """True where not equal."""
    return binary("ne", x1, x2)


def pow(x1: Operand, x2: Operand) -> Array:
    """x1 to the power of x2."""
    return binary("pow", x1, x2)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x."""
    return _unary("recip", x)


def remainder(x1: Operand, x2: Operand) -> Array:
    """The remainder with the sign of x2."""
    return binary("mod", x1, x2)


def round(x: ArrayLike) -> Array:
    """The nearest whole number; ties go to the even one."""
    return _unary("round", x)


def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x)."""
    return _unary("rsqrt", x)


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x))."""
    return _unary("sigmoid", x)


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1."""
    return _unary("sign", x)


def sin(x: ArrayLike) -> Array:
    """The sine of radians."""
    return _unary("sin", x)


def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine."""
    return _unary("sinh", x)


def sqrt(x: ArrayLike) -> Array:
    """The square root; NaN below 0."""
    return _unary("sqrt", x)


def square(x: ArrayLike) -> Array:
    """x * x."""
    return binary("mul", x, x)


def subtract(x1: Operand, x2: Operand) -> Array:
    """x1 - x2."""
    return binary("sub", x1, x2)


def tan(x: ArrayLike) -> Array:
    """The tangent of radians."""
    return _unary("tan", x)


def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent."""
    return _unary("tanh", x)


def trunc(x: ArrayLike) -> Array:
    """The next whole number toward 0."""
    return _unary("trunc", x)


def _unary(scalar: str, x: object) -> Array:
    place = caller()
    return Array(elementwise(scalar, (as_value(x, place),), place))
