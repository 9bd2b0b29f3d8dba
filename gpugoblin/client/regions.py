"""Reading boxes of an array that lives on the node.

Owns: the step from an index to boxes, and the cut of large boxes into requests of a few MiB. Must
not: decide what is verified; the node refuses a region that is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import Any, Final

import numpy as np

from gpugoblin.catalog.spec import Array
from gpugoblin.errors import ClientError

__all__ = ["PIECE_BYTES", "Box", "boxes", "read_box", "resolve"]

PIECE_BYTES: Final = 8 * 1024 * 1024

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Start (included) and stop (not), an integer an axis."""

Fetch = Callable[[tuple[int, ...], tuple[int, ...], memoryview], None]
"""Fills a buffer with the C-order bytes of a box."""


def resolve(shape: tuple[int, ...], index: object) -> tuple[Box, tuple[int | slice, ...]]:
    """The smallest box that holds `index`, and the index to apply to that box.

    Raises:
        ClientError: `region_malformed`.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = _without_ellipsis(shape, parts)
    start: list[int] = []
    stop: list[int] = []
    inner: list[int | slice] = []
    for part, extent in zip(parts, shape, strict=True):
        if isinstance(part, slice):
            first, last, step = _slice(shape, part, extent)
            start.append(first)
            stop.append(last)
            inner.append(slice(None, None, step))
        else:
            if not isinstance(part, int | np.integer) or isinstance(part, bool):
                raise _malformed(shape, index, f"{type(part).__name__} is not an int or a slice")
            if not -extent <= part < extent:
                raise _malformed(shape, index, f"{part} is outside an extent of {extent}")
            start.append(int(part) % extent)
            stop.append(int(part) % extent + 1)
            inner.append(0)
    return (tuple(start), tuple(stop)), tuple(inner)


def read_box(box: Box, dtype: np.dtype[Any], fetch: Fetch) -> Array:
    """The numbers of a box, fetched in pieces of at most `PIECE_BYTES` (or one element)."""
    start, stop = box
    shape = tuple(last - first for first, last in zip(start, stop, strict=True))
    result = np.empty(shape, dtype)
    if result.size == 0:
        return result
    for first, last in boxes(box, dtype.itemsize, PIECE_BYTES):
        place: list[Any] = [
            slice(a - base, b - base) for a, b, base in zip(first, last, start, strict=True)
        ]
        part = result[(*place, ...)]  # the ellipsis keeps a 0-d part a view
        if part.flags.c_contiguous:
            fetch(first, last, _bytes(part))
        else:
            packed = np.empty(part.shape, dtype)
            fetch(first, last, _bytes(packed))
            part[...] = packed
    return result


def boxes(box: Box, itemsize: int, limit_bytes: int) -> Iterator[Box]:
    """Cuts a box, first axis first, into boxes of at most `limit_bytes` in C order."""
    start, stop = box
    extents = [last - first for first, last in zip(start, stop, strict=True)]
    if math.prod(extents) == 0:
        return
    axis = 0
    while axis < len(extents) and math.prod(extents[axis + 1 :]) * itemsize > limit_bytes:
        axis += 1
    if axis == len(extents):
        axis -= 1
    if not extents:
        yield box
        return
    row_bytes = math.prod(extents[axis + 1 :]) * itemsize
    rows = max(1, limit_bytes // row_bytes)
    for outer in np.ndindex(*extents[:axis]):
        lead = tuple(base + offset for base, offset in zip(start, outer, strict=False))
        for row in range(start[axis], stop[axis], rows):
            first = (*lead, row, *start[axis + 1 :])
            last = (
                *(place + 1 for place in lead),
                min(row + rows, stop[axis]),
                *stop[axis + 1 :],
            )
            yield first, last


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _slice(shape: tuple[int, ...], part: slice, extent: int) -> tuple[int, int, int]:
    try:
        first, last, step = part.indices(extent)
    except (TypeError, ValueError) as cause:
        raise _malformed(shape, part, str(cause)) from cause
    if step < 0:
        raise _malformed(shape, part, "steps below 0 are not read; turn the result around")
    return first, max(first, last), step


def _without_ellipsis(shape: tuple[int, ...], parts: list[object]) -> list[object]:
    ellipses = [i for i, part in enumerate(parts) if isinstance(part, EllipsisType)]
    given = len(parts) - len(ellipses)
    if len(ellipses) > 1 or given > len(shape):
        raise _malformed(shape, tuple(parts), f"there are {len(shape)} axes")
    rest: list[object] = [slice(None)] * (len(shape) - given)
    where = ellipses[0] if ellipses else len(parts)
    return [*parts[:where], *rest, *parts[where + 1 :]]


def _malformed(shape: tuple[int, ...], index: object, reason: str) -> ClientError:
    return ClientError("region_malformed", shape=shape, index=index, reason=reason)
