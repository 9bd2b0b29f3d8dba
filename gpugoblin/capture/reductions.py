"""Reductions as functions, under the names of the Python array API standard.

Owns: `gg.sum(x)` for `x.sum()`, and so on. Each takes a lazy array or an ndarray and raises
`CaptureError` with the researcher's line.
"""

from __future__ import annotations

from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.dtypes import DtypeLike, catalog_dtype
from gpugoblin.capture.elementwise import cast, elementwise
from gpugoblin.capture.indexing import take_index
from gpugoblin.capture.reducing import Axis, mean_of, reduce, reduce_arg, variance
from gpugoblin.capture.shaping import concat, normal_axis

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "diff", "max", "mean", "min", "prod", "std",
    "sum", "var",
]  # fmt: skip


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


def prod(
    x: ArrayLike, *, axis: Axis = None, dtype: DtypeLike | None = None, keepdims: bool = False
) -> Array:
    """Products; int32 and bool as int64."""
    return _added("prod", x, axis, dtype, keepdims, caller())


def sum(
    x: ArrayLike, *, axis: Axis = None, dtype: DtypeLike | None = None, keepdims: bool = False
) -> Array:
    """Sums; int32 and bool as int64."""
    return _added("sum", x, axis, dtype, keepdims, caller())


def var(
    x: ArrayLike, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """Variances of float32: squares of distances from the mean, over the count less
    `correction`."""
    place = caller()
    return Array(variance(as_value(x, place), axis, correction, keepdims, place))


def std(
    x: ArrayLike, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """Standard deviations: the roots of `var`."""
    place = caller()
    found = variance(as_value(x, place), axis, correction, keepdims, place)
    return Array(elementwise("sqrt", (found,), place))


def count_nonzero(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements are not zero, as int64."""
    place = caller()
    return Array(reduce("sum", cast(as_value(x, place), "bool", place), axis, keepdims, place))


def diff(
    x: ArrayLike,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Each element less the one before it along `axis`, `n` times over."""
    place = caller()
    value = as_value(x, place)
    axis = normal_axis("diff", value, axis, place)
    ends = [as_value(end, place) for end in (prepend, append) if end is not None]
    if ends:
        after = [] if append is None else [ends[-1]]
        before = [] if prepend is None else [ends[0]]
        value = concat([*before, value, *after], axis, place)
    function = "xor" if value.spec.dtype == "bool" else "sub"
    whole = (slice(None),) * axis
    for _ in range(n):
        later = take_index(value, (*whole, slice(1, None)), place)
        earlier = take_index(value, (*whole, slice(None, -1)), place)
        value = elementwise(function, (later, earlier), place)
    return Array(value)


def _added(
    function: str, x: ArrayLike, axis: Axis, dtype: DtypeLike | None, keepdims: bool, place: Place
) -> Array:
    value = as_value(x, place)
    if dtype is not None:
        value = cast(value, catalog_dtype(dtype, place, "the target"), place)
    found = reduce(function, value, axis, keepdims, place)
    return Array(found if dtype is None else cast(found, value.spec.dtype, place))
