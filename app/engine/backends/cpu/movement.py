"""Operators that only move elements, and the views that replace them.

Owns: blocked copies. Must not: compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.rules import int_attribute, ints_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = [
    "broadcast",
    "broadcast_view",
    "concat",
    "copy_into",
    "permute",
    "permute_view",
    "reshape",
    "reshape_view",
    "slice_",
    "slice_view",
]

COPY_ELEMENTS: Final = 256 * 1024


def copy_into(source: Array, out: Array, context: Context) -> None:
    """Copies an array, however it lies, in blocks."""
    boxes = cut(out.shape, COPY_ELEMENTS)

    def block(number: int) -> None:
        np.copyto(out[boxes[number]], source[boxes[number]])

    context.blocks(len(boxes) if out.size else 0, block)


def reshape_view(source: Array, attributes: Attributes) -> Array:
    """Raises ValueError where the elements would have to move."""
    return source.reshape(ints_attribute(attributes, "shape"), copy=False)


def permute_view(source: Array, attributes: Attributes) -> Array:
    return source.transpose(ints_attribute(attributes, "axes"))


def slice_view(source: Array, attributes: Attributes) -> Array:
    names = ("start", "stop", "step")
    start, stop, step = (ints_attribute(attributes, name) for name in names)
    return np.asarray(source[tuple(map(slice, start, stop, step))])


def broadcast_view(source: Array, attributes: Attributes) -> Array:
    return np.broadcast_to(source, ints_attribute(attributes, "shape"))


def reshape(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    copy_into(reads[0], writes[0].reshape(reads[0].shape), context)


def permute(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    copy_into(permute_view(reads[0], attributes), writes[0], context)


def slice_(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    copy_into(slice_view(reads[0], attributes), writes[0], context)


def broadcast(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    copy_into(broadcast_view(reads[0], attributes), writes[0], context)


def concat(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    axis = int_attribute(attributes, "axis")
    start = 0
    for array in reads:
        stop = start + array.shape[axis]
        part = writes[0][(slice(None),) * axis + (slice(start, stop),)]
        copy_into(array, part, context)
        start = stop
