"""Elementwise functions of the standard that are several scalar functions of the catalog.

Owns: how each is written, so that it neither overflows nor cancels where the result does not. Where
the catalog has the function itself, that is used. Each takes lazy arrays or ndarrays and raises
`CaptureError` with the researcher's line.
"""

from __future__ import annotations

import math
from typing import Final

from gpugoblin.capture.array import Array, ArrayLike, as_value, operand
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.dtypes import Number
from gpugoblin.capture.elementwise import elementwise, literal, select
from gpugoblin.capture.expression import Value
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import FLOATS

__all__ = [
    "acosh",
    "asinh",
    "atanh",
    "conj",
    "copysign",
    "hypot",
    "logaddexp",
    "nextafter",
    "positive",
    "real",
    "signbit",
]

Operand = ArrayLike | Number
_LARGE: Final = 1e9
"""Beyond it, x and sqrt(x^2 - 1) are one float32."""
_LOG_2: Final = math.log(2)


def acosh(x: ArrayLike) -> Array:
    """The number of 0 or more whose hyperbolic cosine this is; NaN below 1."""
    place = caller()
    value = as_value(x, place)
    if "acosh" in SCALARS:
        return Array(elementwise("acosh", (value,), place))
    write = _Writer(place)
    above = write("sub", value, 1.0)
    # Two roots: their product is not a number below 1, where that of their squares would be.
    root = write("mul", write("sqrt", above), write("sqrt", write("add", above, 2.0)))
    inner = write("add", above, root)
    far = write("add", write("log", value), _LOG_2)
    return Array(select(write("gt", value, _LARGE), far, write("log1p", inner), place))


def asinh(x: ArrayLike) -> Array:
    """The number whose hyperbolic sine this is."""
    place = caller()
    value = as_value(x, place)
    if "asinh" in SCALARS:
        return Array(elementwise("asinh", (value,), place))
    write = _Writer(place)
    size = write("abs", value)
    square = write("mul", size, size)
    root = write("add", write("sqrt", write("add", square, 1.0)), 1.0)
    near = write("log1p", write("add", size, write("div", square, root)))
    far = write("add", write("log", size), _LOG_2)
    found = select(write("gt", size, _LARGE), far, near, place)
    return Array(select(write("lt", value, 0.0), write("neg", found), found, place))


def atanh(x: ArrayLike) -> Array:
    """The number whose hyperbolic tangent this is; NaN beyond 1."""
    place = caller()
    value = as_value(x, place)
    if "atanh" in SCALARS:
        return Array(elementwise("atanh", (value,), place))
    write = _Writer(place)
    size = write("abs", value)
    ratio = write("div", write("mul", size, 2.0), write("sub", 1.0, size))
    half = write("mul", write("log1p", ratio), 0.5)
    return Array(select(write("lt", value, 0.0), write("neg", half), half, place))


def copysign(x1: Operand, x2: Operand) -> Array:
    """The size of `x1` with the sign of `x2`; a NaN counts as above 0."""
    place = caller()
    first, second = _pair(x1, x2, place)
    write = _Writer(place)
    size = write("abs", first)
    return Array(select(_negative(second, place), write("neg", size), size, place))


def hypot(x1: Operand, x2: Operand) -> Array:
    """sqrt(x1^2 + x2^2), infinite only where the result is."""
    place = caller()
    first, second = _pair(x1, x2, place)
    if "hypot" in SCALARS:
        return Array(elementwise("hypot", (first, second), place))
    write = _Writer(place)
    a, b = write("abs", first), write("abs", second)
    large, small = write("max", a, b), write("min", a, b)
    ratio = write("div", small, large)
    length = write("mul", large, write("sqrt", write("add", write("mul", ratio, ratio), 1.0)))
    endless = write("or", write("isinf", a), write("isinf", b))
    length = select(write("eq", large, 0.0), large, length, place)
    return Array(select(endless, math.inf, length, place))


def logaddexp(x1: Operand, x2: Operand) -> Array:
    """log(exp(x1) + exp(x2)), from the larger one down so that nothing overflows."""
    place = caller()
    first, second = _pair(x1, x2, place)
    if "logaddexp" in SCALARS:
        return Array(elementwise("logaddexp", (first, second), place))
    write = _Writer(place)
    distance = write("abs", write("sub", first, second))
    more = write("log1p", write("exp", write("neg", distance)))
    found = write("add", write("max", first, second), more)
    same = write("add", first, _LOG_2)
    return Array(select(write("eq", first, second), same, found, place))


def nextafter(x1: Operand, x2: Operand) -> Array:
    """The float32 that comes after `x1` toward `x2`."""
    place = caller()
    return Array(elementwise("nextafter", _pair(x1, x2, place), place))


def positive(x: ArrayLike) -> Array:
    """The elements as they are."""
    return Array(as_value(x, caller()))


def conj(x: ArrayLike) -> Array:
    """The elements as they are: they are real."""
    return Array(as_value(x, caller()))


def real(x: ArrayLike) -> Array:
    """The elements as they are: they are real."""
    return Array(as_value(x, caller()))


def signbit(x: ArrayLike) -> Array:
    """True below 0 and for -0.0; a NaN counts as above 0."""
    place = caller()
    return Array(_negative(as_value(x, place), place))


class _Writer:
    """Scalar functions at one line of the researcher's program."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __call__(self, name: str, *operands: Value | Number) -> Value:
        return elementwise(name, operands, self._place)


def _negative(value: Value, place: Place) -> Value:
    write = _Writer(place)
    below = write("lt", value, 0 if value.spec.dtype not in FLOATS else 0.0)
    if value.spec.dtype not in FLOATS:
        return below
    return write("or", below, write("lt", write("recip", value), 0.0))


def _pair(x1: object, x2: object, place: Place) -> tuple[Value, Value]:
    """Both as values; a number beside an array gets its dtype from `elementwise`'s rule."""
    first, second = operand(x1, place), operand(x2, place)
    if isinstance(first, Value) and isinstance(second, Value):
        return first, second
    if isinstance(first, Value):
        return first, literal(float(second), first.spec.dtype, place)  # type: ignore[arg-type]
    if isinstance(second, Value):
        return literal(float(first), second.spec.dtype, place), second
    return as_value(x1, place), literal(float(second), "float32", place)
