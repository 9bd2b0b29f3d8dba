"""Operators that only move elements: views, joins, cuts. Owns: those ATen operators.

A graph has logical shapes and no strides, so every view is a copy of the value that it sees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpugoblin.capture.torch.context import Context, Unsupported, normal_axis
from gpugoblin.capture.torch.families.complexes import as_pair, eachwise
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Pair, Value

__all__ = ["pieces", "select", "stack"]

_END = 2**62


@aten("view", "_unsafe_view", "reshape", "_reshape_alias", "view_copy")
@eachwise
def view(c: Context, x: Value, shape: Any, *strides: Any) -> Value:
    if not isinstance(shape, list | tuple):
        raise Unsupported("a view of the same bytes under another dtype")
    wanted = [int(extent) for extent in shape]
    if -1 in wanted:
        known = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = c.spec(x).count // known if known else 0
    return c.reshape(x, wanted)


@aten("permute")
@eachwise
def permute(c: Context, x: Value, dims: Sequence[int]) -> Value:
    rank = len(c.shape(x))
    return c.permute(x, [normal_axis(axis, rank) for axis in dims])


@aten("transpose", "swapaxes")
@eachwise
def transpose(c: Context, x: Value, first: int, second: int) -> Value:
    rank = len(c.shape(x))
    if rank == 0:
        return x
    order = list(range(rank))
    one, other = normal_axis(first, rank), normal_axis(second, rank)
    order[one], order[other] = order[other], order[one]
    return c.permute(x, order)


@aten("t", "numpy_T", "mT")
@eachwise
def turned(c: Context, x: Value) -> Value:
    return c.permute(x, range(len(c.shape(x)))[::-1])


@aten("unsqueeze")
@eachwise
def unsqueeze(c: Context, x: Value, dim: int) -> Value:
    shape = c.shape(x)
    place = dim % (len(shape) + 1)
    return c.reshape(x, (*shape[:place], 1, *shape[place:]))


@aten("squeeze")
@eachwise
def squeeze(c: Context, x: Value, dim: int | Sequence[int] | None = None) -> Value:
    shape = c.shape(x)
    given = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = {normal_axis(axis, len(shape)) for axis in given}
    return c.reshape(x, [n for axis, n in enumerate(shape) if axis not in axes or n != 1])


@aten("expand")
@eachwise
def expand(c: Context, x: Value, size: Sequence[int], implicit: bool = False) -> Value:
    shape = c.shape(x)
    new = len(size) - len(shape)
    wanted = [shape[axis - new] if n == -1 else int(n) for axis, n in enumerate(size)]
    return c.spread(x, wanted)


@aten("slice")
@eachwise
def sliced(
    c: Context,
    x: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    shape = c.shape(x)
    axis = normal_axis(dim, len(shape))
    first, last, _ = slice(start, None if end is None or end > _END else end).indices(shape[axis])
    return c.cut(x, axis, first, max(first, last), step)


@aten("select")
@eachwise
def select(c: Context, x: Value, dim: int, index: int) -> Value:
    shape = c.shape(x)
    axis = normal_axis(dim, len(shape))
    place = index % max(1, shape[axis])
    taken = c.cut(x, axis, place, place + 1)
    return c.reshape(taken, (*shape[:axis], *shape[axis + 1 :]))


@aten("narrow")
@eachwise
def narrow(c: Context, x: Value, dim: int, start: int, length: int) -> Value:
    shape = c.shape(x)
    axis = normal_axis(dim, len(shape))
    first = start % shape[axis] if start < 0 else start
    return c.cut(x, axis, first, first + length)


def pieces(c: Context, x: Value, sizes: Sequence[int], dim: int) -> tuple[Value, ...]:
    """The axis cut into lengths."""
    axis = normal_axis(dim, len(c.shape(x)))
    ends = np.cumsum([0, *map(int, sizes)]).tolist()
    return tuple(c.cut(x, axis, ends[n], ends[n + 1]) for n in range(len(sizes)))


@aten("split_with_sizes", "split.sizes", "split_with_sizes_copy")
@eachwise
def split_with_sizes(c: Context, x: Value, sizes: Sequence[int], dim: int = 0) -> Any:
    return pieces(c, x, sizes, dim)


@aten("split")
@eachwise
def split(c: Context, x: Value, size: Any, dim: int = 0) -> Any:
    if not isinstance(size, int):
        return pieces(c, x, size, dim)
    extent = c.shape(x)[normal_axis(dim, len(c.shape(x)))]
    whole, rest = divmod(extent, max(1, size))
    return pieces(c, x, [size] * whole + ([rest] if rest or not whole else []), dim)


@aten("chunk")
@eachwise
def chunk(c: Context, x: Value, chunks: int, dim: int = 0) -> Any:
    extent = c.shape(x)[normal_axis(dim, len(c.shape(x)))]
    return split(c, x, -(-extent // chunks), dim)


@aten("unbind")
@eachwise
def unbind(c: Context, x: Value, dim: int = 0) -> Any:
    extent = c.shape(x)[normal_axis(dim, len(c.shape(x)))]
    return tuple(select(c, x, dim, place) for place in range(extent))


def _joined(c: Context, parts: Sequence[Any], dim: int) -> Any:
    if any(isinstance(part, Pair) for part in parts):
        pairs = [as_pair(c, part) for part in parts]
        return Pair(
            _joined(c, [pair.real for pair in pairs], dim),
            _joined(c, [pair.imag for pair in pairs], dim),
        )
    # torch lets an empty line stand beside tensors of any rank.
    kept = [part for part in parts if c.shape(part) != (0,)] or list(parts[:1])
    dtype = c.promoted(*parts)
    axis = normal_axis(dim, len(c.shape(kept[0])))
    return c.concat([c.cast(part, dtype) for part in kept], axis)


@aten("cat", "concat", "concatenate")
def cat(c: Context, tensors: Sequence[Any], dim: int = 0) -> Any:
    return _joined(c, tensors, dim)


@aten("stack")
def stack(c: Context, tensors: Sequence[Any], dim: int = 0) -> Any:
    first = tensors[0].real if isinstance(tensors[0], Pair) else tensors[0]
    axis = dim % (len(c.shape(first)) + 1)
    return _joined(c, [unsqueeze(c, tensor, axis) for tensor in tensors], axis)


@aten("flip")
@eachwise
def flip(c: Context, x: Value, dims: Sequence[int]) -> Value:
    axes = sorted({normal_axis(axis, len(c.shape(x))) for axis in dims})
    return c.op("flip", [x], axes=tuple(axes)) if c.shape(x) else x


@aten("repeat")
@eachwise
def repeat(c: Context, x: Value, repeats: Sequence[int]) -> Value:
    shape = (*(1,) * (len(repeats) - len(c.shape(x))), *c.shape(x))
    split_up = [extent for n in shape for extent in (1, n)]
    whole = [extent for count, n in zip(repeats, shape, strict=True) for extent in (count, n)]
    final = [count * n for count, n in zip(repeats, shape, strict=True)]
    if len(whole) <= 8:
        return c.reshape(c.spread(c.reshape(x, split_up), whole), final)
    x = c.reshape(x, shape)
    for axis, count in enumerate(repeats):
        x = c.concat([x] * count, axis) if count else c.cut(x, axis, 0, 0)
    return x


@aten("roll")
@eachwise
def roll(c: Context, x: Value, shifts: Any, dims: Any = ()) -> Value:
    shape = c.shape(x)
    moves = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = [dims] if isinstance(dims, int) else list(dims)
    if not axes:
        flat = roll(c, c.reshape(x, (c.spec(x).count,)), moves, [0])
        return c.reshape(flat, shape)
    for move, dim in zip(moves, axes, strict=True):
        axis = normal_axis(dim, len(shape))
        place = -move % max(1, shape[axis])
        if place:
            x = c.concat([c.cut(x, axis, place, shape[axis]), c.cut(x, axis, 0, place)], axis)
    return x


@aten("diagonal")
@eachwise
def diagonal(c: Context, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The two axes last and flattened; the diagonal is then a slice with steps."""
    rank = len(c.shape(x))
    one, other = normal_axis(dim1, rank), normal_axis(dim2, rank)
    rest = [axis for axis in range(rank) if axis not in (one, other)]
    moved = c.permute(x, [*rest, one, other])
    rows, columns = c.shape(moved)[-2:]
    first = offset if offset >= 0 else -offset * columns
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = c.reshape(moved, (*c.shape(moved)[:-2], rows * columns))
    start = min(first, rows * columns)
    stop = min(rows * columns, first + max(0, length - 1) * (columns + 1) + (length > 0))
    return c.cut(flat, rank - 2, start, max(start, stop), columns + 1)


@aten("unfold")
@eachwise
def unfold(c: Context, x: Value, dimension: int, size: int, step: int) -> Value:
    shape = c.shape(x)
    axis = normal_axis(dimension, len(shape))
    count = (shape[axis] - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)
    taken = c.op("gather", [x, c.constant(places)], axis=axis)
    order = [place for place in range(len(shape) + 1) if place != axis + 1]
    return c.permute(taken, [*order, axis + 1])


@aten("as_strided", "as_strided_copy")
@eachwise
def as_strided(
    c: Context, x: Value, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Value:
    """Elements of the value in C order. The value must have been contiguous, which the comparison
    with eager proves."""
    places = np.full(tuple(size), offset or 0, np.int64)
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        line = np.arange(extent) * step
        places = places + line.reshape((-1,) + (1,) * (len(size) - axis - 1))
    if places.size and (places.max() >= c.spec(x).count or places.min() < 0):
        raise Unsupported("as_strided reads memory outside the tensor that it is given")
    flat = c.reshape(x, (c.spec(x).count,))
    return c.op("gather", [flat, c.constant(places)], axis=0)


@aten("tril")
@eachwise
def tril(c: Context, x: Value, diagonal: int = 0) -> Value:
    return _triangle(c, x, diagonal, "le")


@aten("triu")
@eachwise
def triu(c: Context, x: Value, diagonal: int = 0) -> Value:
    return _triangle(c, x, diagonal, "ge")


def _triangle(c: Context, x: Value, diagonal: int, function: str) -> Value:
    rows, columns = c.shape(x)[-2:]
    row = c.reshape(c.iota(rows), (rows, 1))
    gap = c.call("sub", c.iota(columns), row)
    kept = c.call(function, gap, c.number(diagonal, "int64"))
    if c.dtype(x) == "bool":
        return c.call("and", kept, x)
    return c.call("where", kept, x, c.number(0, c.dtype(x)))
