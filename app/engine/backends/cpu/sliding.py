"""window and fold on the processor: one element of the window after the other. Owns the kernels.

A block is some of the leading places; what it lays out or adds up stays in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.ops.sliding import at_place, fold_into, fold_windows, sliding_windows
from gpugoblin.catalog.rules import ints_attribute
from gpugoblin.catalog.spec import Array, Attributes
from gpugoblin.catalog.windows import padded, shifts

__all__ = ["fold", "window"]

BLOCK_ELEMENTS: Final = 256 * 1024


def window(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    source, out = reads[0], writes[0]
    windows = sliding_windows(attributes)
    kept = source.ndim - len(windows)
    spots = out.shape[out.ndim - len(windows) :]
    boxes = _boxes(source, kept)

    def block(number: int) -> None:
        box = boxes[number]
        part, target = source[box], out[box]
        if target.size:
            for place, moved in shifts(padded(part, windows, 0), windows, spots):
                np.copyto(target[at_place(kept, place)], moved)

    context.blocks(len(boxes), block)


def fold(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    source, out = reads[0], writes[0]
    windows = fold_windows(source.shape, attributes)
    kept = out.ndim - len(ints_attribute(attributes, "space"))
    boxes = _boxes(out, kept)

    def block(number: int) -> None:
        fold_into(source[boxes[number]], windows, out[boxes[number]])

    context.blocks(len(boxes), block)


def _boxes(array: Array, kept: int) -> list[tuple[slice, ...]]:
    plane = max(1, math.prod(array.shape[kept:]))
    found = cut(array.shape[:kept], max(1, BLOCK_ELEMENTS // plane))
    return [tuple(one for one in box if isinstance(one, slice)) for box in found]
