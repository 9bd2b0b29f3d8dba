"""layer_norm on the processor: some rows at a time. Owns the kernel.

A block of rows is read once and stays in the cache for all passes. Axes that are normalized are
moved last in the block; where they are the last ones that is free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.backends.cpu.rows import ROWS, Rows, ready
from app.engine.context import Context
from gpugoblin.catalog.rules import ints_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["layer_norm"]

ROW_ELEMENTS: Final = 1 << 16
COMPILED_ELEMENTS: Final = 1 << 18
"""A call of the compiled loops costs some microseconds, and they need no room in the cache."""


def _lines(rest: Sequence[Array], shape: tuple[int, ...]) -> list[Array] | None:
    """Scale and shift as one line each, where they are the same for every row; else None."""
    if any(one.ndim > len(shape) for one in rest):
        return None
    return [np.array(np.broadcast_to(one, shape), np.float32).reshape(-1) for one in rest]


def _compiled(
    rows: Rows,
    data: Array,
    out: Array,
    count: int,
    epsilon: float,
    lines: Sequence[Array],
    context: Context,
) -> None:
    """The normalized axes are the last ones, and a row lies in one piece."""
    source, target = data.reshape(-1, count), out.reshape(-1, count)
    boxes = cut(source.shape[:1], max(1, COMPILED_ELEMENTS // count))
    scale, shift = [*lines, None, None][:2]

    def block(number: int) -> None:
        box = boxes[number]
        rows.layer_norm(source[box], target[box], epsilon, scale, shift)

    context.blocks(len(boxes), block)


def layer_norm(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    data, epsilon, *rest = reads
    out = writes[0]
    axes = ints_attribute(attributes, "axes")
    kept = tuple(axis for axis in range(data.ndim) if axis not in axes)
    order = (*kept, *axes)
    source, target = data.transpose(order), out.transpose(order)
    more = [np.broadcast_to(one, data.shape).transpose(order) for one in rest]
    count = math.prod(source.shape[len(kept) :])
    if out.size == 0:
        return
    boxes = cut(source.shape[: len(kept)], max(1, ROW_ELEMENTS // count))
    if ROWS is not None and order == tuple(range(data.ndim)) and ready(data, out):
        lines = _lines(rest, source.shape[len(kept) :])
        if lines is not None:
            _compiled(ROWS, data, out, count, float(epsilon), lines, context)
            return

    def block(number: int) -> None:
        box = boxes[number]
        part = source[box]
        shape = part.shape
        rows = part.reshape(-1, count)
        centered = np.subtract(rows, rows.mean(axis=1, keepdims=True))
        # NumPy adds along the last axis pairwise: no chain of additions is long.
        square = np.multiply(centered, centered).mean(axis=1)
        scale = 1 / np.sqrt(square + epsilon)
        np.multiply(centered, scale[:, None], out=centered)
        shaped = centered.reshape(shape)
        if more:
            np.multiply(shaped, more[0][box], out=shaped)
        if len(more) > 1:
            np.add(shaped, more[1][box], out=shaped)
        target[box] = shaped

    context.blocks(len(boxes), block)
