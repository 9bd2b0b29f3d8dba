"""Taking and putting elements along one axis, row by row, in the catalog's operators.

Owns: the way from an index along an axis to an index of the flattened array, where `gather` and
`scatter` can be used. Must not: grow operators of its own.
"""

from __future__ import annotations

import math

from gpugoblin.catalog.building import call, expression, filled, number, reshaped
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import Builder, TensorSpec

__all__ = ["axis_last", "axis_restored", "scatter_along", "take_along"]


def axis_last(builder: Builder, value: int, axis: int) -> int:
    """`axis` becomes the last axis; the order of the others stays."""
    rank = builder.spec(value).rank
    if axis == rank - 1:
        return value
    order = (*(place for place in range(rank) if place != axis), axis)
    return builder.add("permute", [value], axes=order)


def axis_restored(builder: Builder, value: int, axis: int) -> int:
    """The inverse of `axis_last`."""
    rank = builder.spec(value).rank
    if axis == rank - 1:
        return value
    order = (*range(axis), rank - 1, *range(axis, rank - 1))
    return builder.add("permute", [value], axes=order)


def _flat(builder: Builder, indices: int, extent: int) -> int:
    """Indices along a last axis of `extent`, as int64 indices of the flattened array."""
    spec = builder.spec(indices)
    rows = math.prod(spec.shape[:-1])
    wide = indices
    if spec.dtype != "int64":
        wide = builder.add("cast", [indices], dtype="int64")
    first = call(
        builder,
        "mul",
        builder.add("iota", [], count=rows, dtype="int64"),
        number(builder, extent, "int64"),
    )
    table = reshaped(builder, wide, (rows, spec.shape[-1]))

    def place(build: FormulaBuilder, index: int, before: int) -> int:
        # An index beside its row would be one of another row: it becomes a wrong one everywhere.
        inside = build.call(
            "and",
            build.call("ge", index, build.const("int64", 0)),
            build.call("lt", index, build.const("int64", extent)),
        )
        flat = build.call("add", index, before)
        return build.call("where", inside, flat, build.const("int64", -1))

    flat = expression(builder, [table, reshaped(builder, first, (rows, 1))], place)
    return reshaped(builder, flat, (rows * spec.shape[-1],))


def take_along(builder: Builder, data: int, indices: int, axis: int) -> int:
    """result[.., i, ..] = data[.., indices[.., i, ..], ..], as NumPy's take_along_axis.

    Args:
        indices: int32 or int64, of the data's shape but for `axis`. One that is negative or too
            large is an error, as for `gather`.
    """
    rows = axis_last(builder, data, axis)
    places = axis_last(builder, indices, axis)
    spec, wanted = builder.spec(rows), builder.spec(places)
    flat = _flat(builder, places, spec.shape[-1])
    taken = builder.add("gather", [reshaped(builder, rows, (spec.count,)), flat], axis=0)
    return axis_restored(builder, reshaped(builder, taken, wanted.shape), axis)


def scatter_along(
    builder: Builder, updates: int, indices: int, axis: int, extent: int, function: str = "add"
) -> int:
    """Zeros with `updates` put at `indices` along `axis`, whose extent becomes `extent`."""
    rows = axis_last(builder, updates, axis)
    places = axis_last(builder, indices, axis)
    spec = builder.spec(rows)
    shape = (*spec.shape[:-1], extent)
    flat = _flat(builder, places, extent)
    zeros = filled(builder, TensorSpec(spec.dtype, (math.prod(shape),)))
    operands = [zeros, flat, reshaped(builder, rows, (spec.count,))]
    put = builder.add("scatter", operands, axis=0, function=function)
    return axis_restored(builder, reshaped(builder, put, shape), axis)
