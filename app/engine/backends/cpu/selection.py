"""gather, topk and cast on the processor. Owns these kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.backends.cpu.elementwise import cast_into
from app.engine.context import Context, KernelError
from gpugoblin.catalog.rules import bool_attribute, int_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["cast", "gather", "require_indices", "topk"]

TAKE_ELEMENTS: Final = 256 * 1024
CAST_ELEMENTS: Final = 64 * 1024
SORT_ELEMENTS: Final = 64 * 1024
SHORT_ROW: Final = 256


def gather(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Raises KernelError `index_out_of_range`, wherever the index is and whoever needed it."""
    data, indices = reads
    axis = int_attribute(attributes, "axis")
    extent = data.shape[axis]
    require_indices(indices, axis, extent)
    before, after = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    flat = indices.reshape(-1)
    table = data.reshape((before, extent, after))
    out = writes[0].reshape((before, flat.size, after))
    boxes = cut((before, flat.size), max(1, TAKE_ELEMENTS // max(1, after)))

    def block(number: int) -> None:
        rows, places = boxes[number][:2]
        # The indices were checked: `clip` only spares NumPy a private copy of the result.
        np.take(table[rows], flat[places], axis=1, out=out[rows, places], mode="clip")

    context.blocks(len(boxes) if out.size else 0, block)


def require_indices(indices: Array, axis: int, extent: int) -> None:
    if not indices.size:
        return
    lowest, highest = int(indices.min()), int(indices.max())
    if lowest < 0 or highest >= extent:
        wrong = lowest if lowest < 0 else highest
        raise KernelError("index_out_of_range", (wrong, axis, extent))


def cast(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Changes the dtype, block by block."""
    source, out = reads[0], writes[0]
    boxes = cut(out.shape, CAST_ELEMENTS)

    def block(number: int) -> None:
        box = boxes[number]
        cast_into(source[box], out[box])

    context.blocks(len(boxes), block)


def topk(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """The k best along an axis, best first; NaN above all numbers, the lower index among equals."""
    axis, count = int_attribute(attributes, "axis"), int_attribute(attributes, "k")
    largest = bool_attribute(attributes, "largest")
    source = np.moveaxis(reads[0], axis, -1)
    values, indices = (np.moveaxis(array, axis, -1) for array in writes)
    extent = source.shape[-1]
    boxes = cut(source.shape[:-1], max(1, SORT_ELEMENTS // extent))
    by_sorting = extent <= SHORT_ROW or 8 * count > extent

    def block(number: int) -> None:
        box = boxes[number]
        rows = source[box]
        if by_sorting:
            found = _sorted_places(rows, largest)[..., :count]
            np.copyto(indices[box], found)
            np.copyto(values[box], np.take_along_axis(rows, found, -1))
            return
        for place in np.ndindex(rows.shape[:-1]):
            row = np.ascontiguousarray(rows[place])
            found = _best_places(row, count, largest)
            indices[box][place] = found
            values[box][place] = row[found]

    context.blocks(len(boxes), block)


def _sorted_places(rows: Array, largest: bool) -> Array:
    if not largest:
        return np.argsort(rows, axis=-1, kind="stable")
    # Sorted backwards and read backwards: descending, and equals keep their order.
    backwards = np.argsort(rows[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return np.asarray(rows.shape[-1] - 1 - backwards)


def _best_places(row: Array, count: int, largest: bool) -> Array:
    """The same for one long row and a small k: select first, sort only what was selected."""
    rank = row.size - count if largest else count - 1
    edge = np.partition(row, rank)[rank]
    if edge != edge:  # NaN, which is above all numbers and equal to itself in this order
        equal = np.isnan(row)
        better = np.zeros(row.shape, np.bool_) if largest else ~equal
    else:
        equal = row == edge
        better = row > edge if largest else row < edge
        if largest and row.dtype.kind == "f":
            better |= np.isnan(row)
    sure = np.flatnonzero(better)
    chosen = np.concatenate([sure, np.flatnonzero(equal)[: count - sure.size]])
    chosen.sort()
    return np.asarray(chosen[_sorted_places(row[chosen], largest)])
