"""scatter on the processor, in the one order that the catalog gives it.

Owns: the kernel. Blocks are ranges of the axes beside the scattered one, so that each element of
the result has one thread, which meets the updates in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.backends.cpu.movement import copy_into
from app.engine.backends.cpu.selection import require_indices
from app.engine.context import Context
from gpugoblin.catalog.rules import int_attribute, text_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["scatter"]

COLUMNS: Final = 16 * 1024

_APPLY: Final = {"add": np.add, "min": np.minimum, "max": np.maximum}


def scatter(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Raises KernelError `index_out_of_range`, wherever the index is."""
    data, indices, updates = reads
    axis, function = int_attribute(attributes, "axis"), text_attribute(attributes, "function")
    extent = data.shape[axis]
    require_indices(indices, axis, extent)
    copy_into(data, writes[0], context)
    before, after = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    places = indices.reshape(-1).astype(np.intp)
    out = writes[0].reshape((before, extent, after))
    rows = updates.reshape((before, places.size, after))
    boxes = cut((before, after), COLUMNS) if rows.size else []

    def block(number: int) -> None:
        upper, lower = boxes[number][:2]
        for place in range(*upper.indices(before)):  # type: ignore[union-attr]
            _apply(function, out[place][:, lower], places, rows[place][:, lower])

    context.blocks(len(boxes), block)


def _apply(function: str, out: Array, places: Array, rows: Array) -> None:
    if function == "set":
        # NumPy assigns in order: the last of equal indices stays.
        out[places] = rows
    elif out.shape[1] == 1:
        _APPLY[function].at(out[:, 0], places, rows[:, 0])
    elif out.shape[1] >= 16:
        ufunc = _APPLY[function]
        for place, row in zip(places.tolist(), rows, strict=True):
            ufunc(out[place], row, out=out[place])
    else:
        _APPLY[function].at(out, places, rows)
