"""Putting elements by index, and updates of parts. Owns: those ATen operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpugoblin.capture.torch.context import Context, Unsupported, normal_axis
from gpugoblin.capture.torch.families.indexing import Places, wrapped
from gpugoblin.capture.torch.families.movement import unsqueeze
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Scalar, Value

__all__: list[str] = []


@aten("slice_scatter")
def slice_scatter(
    c: Context,
    x: Value,
    source: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    shape = c.shape(x)
    axis = normal_axis(dim, len(shape))
    first, last, _ = slice(start, end).indices(shape[axis])
    taken = max(0, -(-(last - first) // step))
    whole = tuple(taken if place == axis else n for place, n in enumerate(shape))
    part = c.spread(c.cast(source, c.dtype(x)), whole)
    if taken == shape[axis]:
        return part
    begin = tuple(first if place == axis else 0 for place in range(len(shape)))
    steps = tuple(step if place == axis else 1 for place in range(len(shape)))
    return c.op("update_slice", [x, part], start=begin, step=steps)


@aten("select_scatter")
def select_scatter(c: Context, x: Value, source: Value, dim: int, index: int) -> Value:
    axis = normal_axis(dim, len(c.shape(x)))
    place = index % c.shape(x)[axis]
    row = unsqueeze(c, c.spread(source, _without(c.shape(x), axis)), axis)
    return slice_scatter(c, x, row, axis, place, place + 1)


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


@aten("select_backward")
def select_backward(c: Context, seed: Value, sizes: Sequence[int], dim: int, index: int) -> Value:
    return select_scatter(c, c.filled(sizes, 0, c.dtype(seed)), seed, dim, index)


@aten("slice_backward")
def slice_backward(
    c: Context, seed: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Value:
    return slice_scatter(c, c.filled(sizes, 0, c.dtype(seed)), seed, dim, start, end, step)


@aten("diagonal_scatter")
def diagonal_scatter(
    c: Context, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    rank = len(c.shape(x))
    one, other = normal_axis(dim1, rank), normal_axis(dim2, rank)
    order = [*(axis for axis in range(rank) if axis not in (one, other)), one, other]
    moved = c.permute(x, order)
    rows, columns = c.shape(moved)[-2:]
    length = c.shape(source)[-1]
    flat = c.reshape(moved, (*c.shape(moved)[:-2], rows * columns))
    first = offset if offset >= 0 else -offset * columns
    places = c.constant(first + np.arange(length) * (columns + 1))
    put = c.op("scatter", [flat, places, source], axis=rank - 2, function="set")
    return c.permute(c.reshape(put, c.shape(moved)), [order.index(n) for n in range(rank)])


@aten("index_put", "_unsafe_index_put")
def index_put(
    c: Context,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Value:
    given = [one for one in indices if one is not None]
    if len(given) == 1 and c.dtype(given[0]) == "bool" and indices[0] is not None:
        return _masked_put(c, x, given[0], values, accumulate)
    places = Places(c, c.shape(x), indices)
    rows = c.reshape(c.permute(x, places.order), places.merged)
    middle = places.shape
    shape = (*places.merged[: places.axis], *middle, *places.merged[places.axis + 1 :])
    updates = c.spread(c.cast(values, c.dtype(x)), shape)
    if c.dtype(x) == "bool" and accumulate:
        raise Unsupported("index_put of bools that accumulates")
    function = "add" if accumulate else "set"
    put = c.op("scatter", [rows, places.index, updates], axis=places.axis, function=function)
    return places.restored(c, put)


def _masked_put(c: Context, x: Value, mask: Value, values: Value, accumulate: bool) -> Value:
    """x[mask] = one number (or one row): no count of elements is needed."""
    tail = len(c.shape(x)) - len(c.shape(mask))
    if c.spec(values).count != 1 and len(c.shape(values)) > tail:
        raise Unsupported("x[mask] = values takes as many values as the data says")
    filler = c.cast(values, c.dtype(x))
    if c.spec(values).count == 1:
        filler = c.reshape(filler, ())
    seen = c.reshape(mask, (*c.shape(mask), *(1,) * tail))
    return c.call("where", seen, c.call("add", x, filler) if accumulate else filler, x)


def _along(c: Context, x: Value, dim: int, index: Value, source: Value, function: str) -> Value:
    """torch's scatter: each index has a row of its own. Flattened, it is one index."""
    shape = c.shape(x)
    if not shape:
        flat = _along(
            c, c.reshape(x, (1,)), 0, c.reshape(index, (1,)), c.reshape(source, (1,)), function
        )
        return c.reshape(flat, ())
    axis = normal_axis(dim, len(shape))
    places = wrapped(c, index, shape[axis])
    taken = c.shape(index)
    source = c.box(source, (0,) * len(taken), taken, (1,) * len(taken))
    flat = _flat_places(c, places, shape, axis)
    count = c.spec(index).count
    line = c.reshape(c.cast(source, c.dtype(x)), (count,))
    data = c.reshape(x, (c.spec(x).count,))
    put = c.op("scatter", [data, c.reshape(flat, (count,)), line], axis=0, function=function)
    return c.reshape(put, shape)


def _flat_places(c: Context, places: Value, shape: Sequence[int], axis: int) -> Value:
    """The place in the flattened tensor: the index times its stride, plus those of the others."""
    taken = c.shape(places)
    strides = [int(np.prod(shape[place + 1 :], dtype=np.int64)) for place in range(len(shape))]
    whole = c.call("mul", places, c.number(strides[axis], "int64"))
    for place, extent in enumerate(taken):
        if place != axis and extent > 1:
            line = c.call("mul", c.iota(extent), c.number(strides[place], "int64"))
            whole = c.call(
                "add", whole, c.reshape(line, (extent, *(1,) * (len(taken) - place - 1)))
            )
    return whole


def _source(c: Context, x: Value, index: Value, given: Any) -> Value:
    if isinstance(given, Value):
        return given
    return c.filled(c.shape(index), given, c.dtype(x))


@aten("scatter")
def scatter(
    c: Context, x: Value, dim: int, index: Value, source: Any, reduce: str | None = None
) -> Value:
    if reduce not in (None, "add"):
        raise Unsupported(f"scatter that does {reduce}")
    function = "set" if reduce is None else "add"
    return _along(c, x, dim, index, _source(c, x, index, source), function)


@aten("scatter_add")
def scatter_add(c: Context, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _along(c, x, dim, index, source, "add")


@aten("scatter_reduce")
def scatter_reduce(
    c: Context,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    include_self: bool = True,
) -> Value:
    known = {"sum": "add", "amax": "max", "amin": "min", "mean": "mean"}.get(reduce)
    if known is None:
        return _product(c, x, dim, index, source, include_self)
    if not include_self:
        x = _emptied(c, x, dim, index, known)
    if known != "mean":
        return _along(c, x, dim, index, source, known)
    total = _along(c, x, dim, index, source, "add")
    ones = c.filled(c.shape(index), 1, c.dtype(x))
    start = c.filled(c.shape(x), 1 if include_self else 0, c.dtype(x))
    counts = _along(c, start, dim, index, ones, "add")
    counts = c.call("max", counts, c.number(1, c.dtype(x)))
    return c.call("div" if c.floating(x) else "floordiv", total, counts)


_MOST_COMPARED: Final = 1 << 24


def _product(
    c: Context, x: Value, dim: int, index: Value, source: Value, include_self: bool
) -> Value:
    """Products by index: every place looks at all elements of its line."""
    shape, taken = c.shape(x), c.shape(index)
    axis = normal_axis(dim, len(shape))
    if (*shape[:axis], *shape[axis + 1 :]) != (*taken[:axis], *taken[axis + 1 :]):
        raise Unsupported("products by index where other axes differ")
    if c.spec(index).count * shape[axis] > _MOST_COMPARED:
        raise Unsupported("products by index of so many elements")
    source = c.cast(c.box(source, (0,) * len(taken), taken, (1,) * len(taken)), c.dtype(x))
    places = unsqueeze(c, wrapped(c, index, shape[axis]), axis)
    line = c.reshape(c.iota(shape[axis]), (shape[axis], *(1,) * (len(taken) - axis)))
    met = c.call("eq", places, line)
    one = c.number(1, c.dtype(x))
    factors = c.call("where", met, unsqueeze(c, source, axis), one)
    found = c.reduce("prod", factors, (axis + 1,))
    if include_self:
        return c.call("mul", x, found)
    return c.call("where", c.reduce("any", met, (axis + 1,)), found, x)


def _emptied(c: Context, x: Value, dim: int, index: Value, function: str) -> Value:
    """What is reduced into begins at the neutral element."""
    if function in ("max", "min") and not c.floating(x):
        raise Unsupported("scatter_reduce of integers without the tensor itself")
    neutral = {"max": float("-inf"), "min": float("inf")}.get(function, 0)
    return _along(c, x, dim, index, c.filled(c.shape(index), neutral, c.dtype(x)), "set")


@aten("index_add")
def index_add(
    c: Context, x: Value, dim: int, index: Value, source: Value, alpha: Scalar = 1
) -> Value:
    axis = normal_axis(dim, len(c.shape(x)))
    source = c.cast(source, c.dtype(x))
    if alpha != 1:
        source = c.call("mul", source, c.number(alpha, c.dtype(x)))
    places = wrapped(c, c.reshape(index, (c.spec(index).count,)), c.shape(x)[axis])
    return c.op("scatter", [x, places, source], axis=axis, function="add")


@aten("index_reduce")
def index_reduce(
    c: Context,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    include_self: bool = True,
) -> Value:
    """As `scatter_reduce`, with one index for a whole row."""
    axis = normal_axis(dim, len(c.shape(x)))
    shape = c.shape(source)
    line = c.reshape(index, (shape[axis], *(1,) * (len(shape) - axis - 1)))
    return scatter_reduce(c, x, axis, c.spread(line, shape), source, reduce, include_self)


@aten("index_copy")
def index_copy(c: Context, x: Value, dim: int, index: Value, source: Value) -> Value:
    axis = normal_axis(dim, len(c.shape(x)))
    places = wrapped(c, c.reshape(index, (c.spec(index).count,)), c.shape(x)[axis])
    return c.op("scatter", [x, places, source], axis=axis, function="set")


@aten("index_fill")
def index_fill(c: Context, x: Value, dim: int, index: Value, value: Any) -> Value:
    axis = normal_axis(dim, len(c.shape(x)))
    shape = c.shape(x)
    rows = (*shape[:axis], c.spec(index).count, *shape[axis + 1 :])
    return index_copy(c, x, axis, index, c.spread(c.as_value(value, c.dtype(x)), rows))


@aten("embedding_dense_backward")
def embedding_dense_backward(
    c: Context, seed: Value, indices: Value, rows: int, padding: int, by_frequency: bool
) -> Value:
    width = c.shape(seed)[-1]
    empty = c.filled((rows, width), 0.0, c.dtype(seed))
    found = c.op("scatter", [empty, c.cast(indices, "int64"), seed], axis=0, function="add")
    if padding < 0:
        return found
    row = c.filled((1, width), 0.0, c.dtype(seed))
    return c.op("update_slice", [found, row], start=(padding, 0), step=(1, 1))
