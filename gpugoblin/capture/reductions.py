"""Reductions as functions, under the names of the Python array API standard.

Owns: `gg.sum(x)` for `x.sum()`, and so on. Each takes a lazy array or an ndarray and raises
`CaptureError` with the researcher's line.
"""

from __future__ import annotations

from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import caller
from gpugoblin.capture.reducing import Axis, mean_of, reduce, reduce_arg

__all__ = ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum"]


def all(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """True where no element is zero."""
    place = caller()
    return Array(reduce("all", as_value(x, place), axis, keepdims, place))


def any(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """True where any element is not zero."""
    place = caller()
    return Array(reduce("any", as_value(x, place), axis, keepdims, place))


def argmax(x: ArrayLike, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the first largest element is, as int64."""
    place = caller()
    return Array(reduce_arg("argmax", as_value(x, place), axis, keepdims, place))


def argmin(x: ArrayLike, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the first smallest element is, as int64."""
    place = caller()
    return Array(reduce_arg("argmin", as_value(x, place), axis, keepdims, place))


def max(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest elements; NaN wins."""
    place = caller()
    return Array(reduce("max", as_value(x, place), axis, keepdims, place))


def mean(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Means of float32."""
    place = caller()
    return Array(mean_of(as_value(x, place), axis, keepdims, place))


def min(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest elements; NaN wins."""
    place = caller()
    return Array(reduce("min", as_value(x, place), axis, keepdims, place))


def prod(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Products; int32 and bool as int64."""
    place = caller()
    return Array(reduce("prod", as_value(x, place), axis, keepdims, place))


def sum(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Sums; int32 and bool as int64."""
    place = caller()
    return Array(reduce("sum", as_value(x, place), axis, keepdims, place))
