"""pad, flip, update_slice and iota on the processor. Owns these kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import Box, cut
from app.engine.backends.cpu.movement import copy_into
from app.engine.context import Context
from gpugoblin.catalog.rules import ints_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["flip", "flip_view", "iota", "pad", "update_slice"]

FILL_ELEMENTS: Final = 256 * 1024


def pad(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Fills, then copies: at most twice the writes, and none of the elements twice from memory
    where a block fits the cache."""
    data, value = reads
    out = writes[0]
    boxes = cut(out.shape, FILL_ELEMENTS)

    def block(number: int) -> None:
        out[boxes[number]] = value

    context.blocks(len(boxes), block)
    low, between = ints_attribute(attributes, "low"), ints_attribute(attributes, "between")
    _place(data, out, low, tuple(gap + 1 for gap in between), context)


def _place(
    data: Array, out: Array, start: Sequence[int], step: Sequence[int], context: Context
) -> None:
    box: Box = (
        *(
            slice(first, first + max(0, (extent - 1) * stride + 1), stride)
            for extent, first, stride in zip(data.shape, start, step, strict=True)
        ),
        ...,
    )
    copy_into(data, out[box], context)


def update_slice(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    data, update = reads
    copy_into(data, writes[0], context)
    start, step = ints_attribute(attributes, "start"), ints_attribute(attributes, "step")
    _place(update, writes[0], start, step, context)


def flip_view(source: Array, attributes: Attributes) -> Array:
    return np.flip(source, ints_attribute(attributes, "axes"))


def flip(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    copy_into(flip_view(reads[0], attributes), writes[0], context)


def iota(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    out = writes[0]
    boxes = cut(out.shape, FILL_ELEMENTS)

    def block(number: int) -> None:
        start = number * FILL_ELEMENTS
        part = out[boxes[number]]
        part[...] = np.arange(start, start + part.size, dtype=out.dtype)

    context.blocks(len(boxes), block)
