"""Picking elements by several arrays of positions at once.

Owns: `x[i, j]` with arrays of integers and `take_along_axis`, as one `gather` over merged axes. A
position outside of its axis is sent to a place that does not exist, so that it is an error of the
job and never an element of the next row. Must not: read a position that is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpugoblin.capture import shaping
from gpugoblin.capture.applying import apply, refused
from gpugoblin.capture.caller import Place
from gpugoblin.capture.convert import memory_value
from gpugoblin.capture.elementwise import broadcast_shape, cast, elementwise, select
from gpugoblin.capture.expression import Value
from gpugoblin.capture.selecting import take
from gpugoblin.capture.source import MemorySource

__all__ = ["iota", "pick", "take_along_axis"]


def iota(count: int, place: Place) -> Value:
    """0, 1, ... below `count`, as int64."""
    return Value(apply("iota", [], place, count=count, dtype="int64"), 0)


def pick(value: Value, first: int, indices: Sequence[Value], place: Place) -> Value:
    """The elements at `indices`, one array of positions for each axis from `first` on; the axes of
    the broadcast positions take the place of those axes.

    Raises:
        CaptureError: `argument_refused`, `shapes_differ`.
    """
    for index in indices:
        if index.spec.dtype not in ("int32", "int64"):
            raise refused(
                "indexing", [value, index], "positions are int32 or int64",
                'Convert them: .astype("int64"); choose elements by a bool with gg.where.', place,
            )  # fmt: skip
    if len(indices) == 1:
        return take(value, indices[0], first, place)
    extents = value.spec.shape[first : first + len(indices)]
    known = [_counted(i, n, place) for i, n in zip(indices, extents, strict=True)]
    broadcast_shape("indexing", known, place)
    return _gathered(value, first, known, [True] * len(known), place)


def take_along_axis(value: Value, indices: Value, axis: int, place: Place) -> Value:
    """For each line along `axis` the elements at the positions of the same line of `indices`.

    Raises:
        CaptureError: `argument_refused`, `shapes_differ`.
    """
    axis = shaping.normal_axis("take_along_axis", value, axis, place)
    rank = value.spec.rank
    if indices.spec.dtype not in ("int32", "int64") or indices.spec.rank != rank:
        raise refused(
            "take_along_axis", [value, indices],
            "positions are int32 or int64, with as many axes as the array",
            'Convert them with .astype("int64"), add axes with x[..., None].', place,
        )  # fmt: skip
    places: list[Value] = []
    for other, extent in enumerate(value.spec.shape):
        if other == axis:
            places.append(_counted(indices, extent, place))
            continue
        shape = tuple(extent if one == other else 1 for one in range(rank))
        places.append(shaping.reshape(iota(extent, place), shape, place))
    broadcast_shape("take_along_axis", places, place)
    return _gathered(value, 0, places, [other == axis for other in range(rank)], place)


def _counted(index: Value, extent: int, place: Place) -> Value:
    """int64 positions from 0 on, where they are known here."""
    source = index.node.source
    if isinstance(source, MemorySource) and source.array.size and source.array.min() < 0:
        array = np.where(source.array < 0, source.array + extent, source.array)
        index = memory_value(array.astype(np.int64), place)
    return cast(index, "int64", place)


def _gathered(
    value: Value, first: int, indices: Sequence[Value], checked: Sequence[bool], place: Place
) -> Value:
    shape = value.spec.shape
    extents = shape[first : first + len(indices)]
    count = math.prod(extents)
    flat: Value | None = None
    inside: Value | None = None
    for number, (index, extent, check) in enumerate(zip(indices, extents, checked, strict=True)):
        stride = math.prod(extents[number + 1 :])
        share = index if stride == 1 else elementwise("mul", (index, stride), place)
        flat = share if flat is None else elementwise("add", (flat, share), place)
        if check:
            low = elementwise("ge", (index, 0), place)
            fits = elementwise("and", (low, elementwise("lt", (index, extent), place)), place)
            inside = fits if inside is None else elementwise("and", (inside, fits), place)
    if flat is None or inside is None:
        raise LookupError("no axis is picked from")
    flat = select(inside, flat, count, place)
    merged = (*shape[:first], count, *shape[first + len(indices) :])
    data = shaping.reshape(value, merged, place)
    return Value(apply("gather", [data, flat], place, axis=first), 0)
