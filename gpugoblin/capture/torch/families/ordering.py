"""Sorting and searching. Owns: those ATen operators."""

from __future__ import annotations

from typing import Any

from gpugoblin.capture.torch.context import Context, normal_axis
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Scalar, Value

__all__: list[str] = []


@aten("sort")
def sort(c: Context, x: Value, *given: Any, **named: Any) -> tuple[Value, ...]:
    """sort(dim, descending) and sort.stable(*, stable, dim, descending)."""
    dim = named.get("dim", given[0] if given else -1)
    descending = named.get("descending", given[1] if len(given) > 1 else False)
    if not c.shape(x):
        return x, c.number(0, "int64")
    whole = c.cast(x, "int32") if c.dtype(x) == "bool" else x
    axis = normal_axis(dim, len(c.shape(x)))
    found, places = c.ops("sort", [whole], axis=axis, descending=descending)
    return c.cast(found, c.dtype(x)), places


@aten("argsort")
def argsort(c: Context, x: Value, *given: Any, **named: Any) -> Value:
    return sort(c, x, *given, **named)[1]


@aten("topk")
def topk(
    c: Context, x: Value, k: int, dim: int = -1, largest: bool = True, ordered: bool = True
) -> tuple[Value, ...]:
    axis = normal_axis(dim, len(c.shape(x)))
    return c.ops("topk", [x], axis=axis, k=k, largest=largest)


@aten("kthvalue")
def kthvalue(c: Context, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    axis = normal_axis(dim, len(c.shape(x)))
    found = c.ops("sort", [x], axis=axis)
    taken = [c.cut(one, axis, k - 1, k) for one in found]
    if keepdim:
        return tuple(taken)
    shape = c.shape(x)
    return tuple(c.reshape(one, (*shape[:axis], *shape[axis + 1 :])) for one in taken)


@aten("median.dim")
def median(c: Context, x: Value, dim: int = -1, keepdim: bool = False) -> Any:
    axis = normal_axis(dim, len(c.shape(x)))
    return kthvalue(c, x, (c.shape(x)[axis] + 1) // 2, dim, keepdim)


@aten("median")
def median_of_all(c: Context, x: Value) -> Value:
    flat = c.reshape(x, (c.spec(x).count,))
    found: Value = kthvalue(c, flat, (c.spec(x).count + 1) // 2, 0)[0]
    return found


@aten("searchsorted")
def searchsorted(
    c: Context,
    line: Value,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    **_: Any,
) -> Value:
    sorted_line, values = c.together(line, x)
    shape = c.shape(values)
    if not shape:
        values = c.reshape(values, (1,))
    found = c.op("searchsorted", [sorted_line, values], right=right or side == "right")
    return c.cast(c.reshape(found, shape), "int32" if out_int32 else "int64")


@aten("bucketize")
def bucketize(
    c: Context, x: Any, edges: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    return searchsorted(c, edges, x, out_int32=out_int32, right=right)


@aten("histc")
def histc(c: Context, x: Value, bins: int = 100, low: Scalar = 0, high: Scalar = 0) -> Value:
    """Counts between equal edges; with equal bounds torch takes those of the data."""
    from gpugoblin.capture.torch.families.creation import linspace

    first: Any = low
    last: Any = high
    if low == high:
        axes = range(len(c.shape(x)))
        first, last = c.reduce("min", x, axes), c.reduce("max", x, axes)
    edges = linspace(c, first, last, bins + 1)
    flat = c.reshape(x, (c.spec(x).count,))
    return c.cast(c.op("histogram", [flat, edges]), c.dtype(x))


@aten("bincount")
def bincount(c: Context, x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    from gpugoblin.capture.torch.context import Unsupported

    if minlength == 0:
        raise Unsupported("bincount without minlength has as many bins as the data says")
    ones = c.filled(c.shape(x), 1, "int64") if weights is None else weights
    empty = c.filled((minlength,), 0, c.dtype(ones))
    return c.op("scatter", [empty, c.cast(x, "int64"), ones], axis=0, function="add")
