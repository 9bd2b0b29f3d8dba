"""Taking elements by index. Owns: those ATen operators, and torch's negative indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpugoblin.capture.torch.context import Context, Unsupported, normal_axis
from gpugoblin.capture.torch.families.complexes import eachwise
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value
from gpugoblin.catalog.along import take_along
from gpugoblin.catalog.formula_build import FormulaBuilder

__all__ = ["Places", "counted", "wrapped"]


def wrapped(c: Context, index: Value, extent: int) -> Value:
    """int64 indices from 0: negative ones count from the end."""
    wide = c.cast(index, "int64")
    numbers = (c.number(0, "int64"), c.number(extent, "int64"))

    def write(f: FormulaBuilder, i: int, zero: int, whole: int) -> int:
        return f.call("where", f.call("lt", i, zero), f.call("add", i, whole), i)

    return c.formula((wide, *numbers), write)


class Places:
    """NumPy's advanced indexing, made one index along one axis.

    The indexed axes are moved together and flattened; `index` is their flat int64 index, of the
    broadcast shape of all indices.
    """

    def __init__(self, c: Context, shape: Sequence[int], indices: Sequence[Value | None]) -> None:
        given = {axis: index for axis, index in enumerate(indices) if index is not None}
        if any(c.dtype(index) == "bool" for index in given.values()):
            raise Unsupported("a mask of data picks as many elements as the data says")
        self.axes = list(given)
        together = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        self.axis = self.axes[0] if together else 0
        others = [axis for axis in range(len(shape)) if axis not in given]
        self.order = [*others[: self.axis], *self.axes, *others[self.axis :]]
        self.extent = math.prod(shape[axis] for axis in self.axes)
        moved = [shape[axis] for axis in self.order]
        count = len(self.axes)
        self.merged = (*moved[: self.axis], self.extent, *moved[self.axis + count :])
        self.moved = tuple(moved)
        self.shape = c.broadcast_shapes(*(c.shape(index) for index in given.values()))
        self.index = self._flat(c, shape, given)

    def _flat(self, c: Context, shape: Sequence[int], given: dict[int, Value]) -> Value:
        flat: Value | None = None
        for axis, index in given.items():
            place = wrapped(c, index, shape[axis])
            if flat is not None:
                scaled = c.call("mul", flat, c.number(shape[axis], "int64"))
                place = c.call("add", scaled, place)
            flat = place
        if flat is None:
            raise Unsupported("indexing without an index")
        return c.spread(flat, self.shape)

    def gathered(self, c: Context, x: Value) -> Value:
        rows = c.reshape(c.permute(x, self.order), self.merged)
        return c.op("gather", [rows, self.index], axis=self.axis)

    def restored(self, c: Context, rows: Value) -> Value:
        """From merged and moved axes back to the tensor's own."""
        back = [self.order.index(axis) for axis in range(len(self.order))]
        return c.permute(c.reshape(rows, self.moved), back)


@aten("index", "_unsafe_index")
@eachwise
def index(c: Context, x: Value, indices: Sequence[Value | None]) -> Value:
    return Places(c, c.shape(x), indices).gathered(c, x)


@aten("_unsafe_masked_index")
def masked_index(
    c: Context, x: Value, mask: Value, indices: Sequence[Value | None], fill: Any
) -> Value:
    """Where the mask is False the index may be anything: it is made 0 before it is used."""
    zero = c.number(0, "int64")
    safe = [
        None if one is None else c.call("where", mask, c.cast(one, "int64"), zero)
        for one in indices
    ]
    found = Places(c, c.shape(x), safe).gathered(c, x)
    return c.call("where", mask, found, c.as_value(fill, c.dtype(x)))


@aten("index_select")
@eachwise
def index_select(c: Context, x: Value, dim: int, index: Value) -> Value:
    axis = normal_axis(dim, len(c.shape(x)))
    line = c.reshape(index, (c.spec(index).count,))
    return c.op("gather", [x, wrapped(c, line, c.shape(x)[axis])], axis=axis)


@aten("embedding")
def embedding(
    c: Context, weight: Value, indices: Value, padding_idx: int = -1, *rest: Any, **_: Any
) -> Value:
    """Rows by index; the row `padding_idx` gets no gradient."""
    places = c.cast(indices, "int64")
    rows = c.op("gather", [weight, places], axis=0)
    if padding_idx < 0:
        return rows
    padded = c.call("eq", places, c.number(padding_idx, "int64"))
    column = c.reshape(padded, (*c.shape(padded), 1))
    return c.call("where", column, c.stopped(rows), rows)


@aten("take")
def take(c: Context, x: Value, index: Value) -> Value:
    flat = c.reshape(x, (c.spec(x).count,))
    return c.op("gather", [flat, wrapped(c, index, c.spec(x).count)], axis=0)


def counted(c: Context, x: Value, shape: Sequence[int], axis: int) -> Value:
    """The first elements of each axis but one: what `gather` and `scatter` look at."""
    stop = [
        n if place == axis else m
        for place, (n, m) in enumerate(zip(c.shape(x), shape, strict=True))
    ]
    return c.box(x, (0,) * len(stop), stop, (1,) * len(stop))


@aten("gather", "take_along_dim")
@eachwise
def gather(c: Context, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if not c.shape(x):
        return x
    axis = normal_axis(dim, len(c.shape(x)))
    places = wrapped(c, index, c.shape(x)[axis])
    data = counted(c, x, c.shape(index), axis)
    return Value(take_along(c.builder, data.number, places.number, axis))


@aten("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    c: Context,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value, ...]:
    """Sums or means of rows, bag by bag: each row is added to the bag that it belongs to."""
    bags, count = c.shape(offsets)[0], c.shape(indices)[0]
    if include_last_offset:
        bags -= 1
        offsets = c.cut(offsets, 0, 0, bags)
    rows = embedding(c, weight, indices)
    outside = None
    if padding_idx >= 0:
        padding = c.number(padding_idx, "int64")
        outside = c.reshape(c.call("eq", c.cast(indices, "int64"), padding), (count, 1))
    if mode == 2:
        return _largest_of_bags(c, rows, outside, indices, offsets, bags)
    if outside is not None:
        rows = c.call("where", outside, c.number(0.0, c.dtype(weight)), rows)
    if per_sample_weights is not None:
        rows = c.call("mul", rows, c.reshape(per_sample_weights, (count, 1)))
    bag = _bag_of_each(c, offsets, count)
    empty = c.filled((bags, c.shape(weight)[1]), 0.0, c.dtype(weight))
    found = c.op("scatter", [empty, bag, rows], axis=0, function="add")
    if mode == 1:
        ones, none = (
            c.filled((count,), 1.0, c.dtype(weight)),
            c.filled((bags,), 0.0, c.dtype(weight)),
        )
        if outside is not None:
            seen = c.call("not", c.reshape(outside, (count,)))
            ones = c.cast(seen, c.dtype(weight))
        sizes = c.op("scatter", [none, bag, ones], axis=0, function="add")
        sizes = c.call("max", sizes, c.number(1.0, c.dtype(weight)))
        found = c.call("div", found, c.reshape(sizes, (bags, 1)))
    return found, bag, offsets, offsets


def _bag_of_each(c: Context, offsets: Value, count: int) -> Value:
    bag = c.op("searchsorted", [c.cast(offsets, "int64"), c.iota(count)], right=True)
    return c.call("sub", bag, c.number(1, "int64"))


def _largest_of_bags(
    c: Context, rows: Value, outside: Value | None, indices: Value, offsets: Value, bags: int
) -> tuple[Value, ...]:
    """The largest of each bag, and 0 where a bag is empty."""
    bag = _bag_of_each(c, offsets, c.shape(indices)[0])
    least, zero = c.number(float("-inf"), c.dtype(rows)), c.number(0.0, c.dtype(rows))
    if outside is not None:
        rows = c.call("where", outside, least, rows)
    start = c.filled((bags, c.shape(rows)[1]), float("-inf"), c.dtype(rows))
    found = c.op("scatter", [start, bag, rows], axis=0, function="max")
    found = c.call("where", c.call("isinf", found), zero, found)
    return found, bag, offsets, offsets
