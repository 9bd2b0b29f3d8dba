"""conv on the processor: windows laid out as a matrix, one BLAS product a block; where the compiled
loop is there and serves the shape, shifted copies (`shifted.py`).

Owns: the blocks, which depend on shapes alone. A block is some places of one group of one example,
or all places of a few examples where those are few. Its matrix is laid out for some rows of the
kernel at a time, so that it stays in the cache whatever the kernel is; the products are added up.
(Laid out for one row, and read from shifted columns, 3x3 kernels copy a third; but products over
a third of the inner length take longer by more than that: 27 against 21 ms for 1.8 Gflop.)

Where every channel is a group (depthwise), products of matrices are of no use: the elements of the
kernel are multiplied one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.backends.cpu.shifted import SHIFTED, convolve, plan_blocks
from app.engine.context import Context
from gpugoblin.catalog.ops.convolution import conv_windows
from gpugoblin.catalog.rules import int_attribute
from gpugoblin.catalog.spec import Array, Attributes
from gpugoblin.catalog.windows import Window, padded, shifts

__all__ = ["conv"]

COLUMN_ELEMENTS: Final = 1 << 18
"""Elements of a block's matrix: 1 MiB."""

INNER: Final = 1152
"""About the inner length of a product; measured: a third of it costs a quarter of the speed."""

LEAST_COLUMNS: Final = 64

DEPTH_ELEMENTS: Final = 1 << 15


def conv(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    data, kernel = reads
    out = writes[0]
    if out.size == 0:
        return
    if math.prod(kernel.shape[1:]) == 0:
        out[...] = 0
        return
    groups = int_attribute(attributes, "groups")
    windows = conv_windows(kernel.shape, attributes)
    blocks = plan_blocks(data.shape, kernel.shape, out, windows, groups)
    if SHIFTED is not None and blocks is not None:
        convolve(SHIFTED, blocks, data, kernel, out, groups, context)
        return
    plain = all(not (w.low or w.high or w.between) for w in windows)
    wide = data if plain else padded(data, windows, 0.0)
    if groups == kernel.shape[0] and kernel.shape[1] == 1:
        _each(wide, kernel, out, windows, context)
    else:
        _grouped(wide, kernel, out, windows, groups, context)


def _grouped(
    wide: Array,
    kernel: Array,
    out: Array,
    windows: Sequence[Window],
    groups: int,
    context: Context,
) -> None:
    channels, first, *rest = kernel.shape[1:]
    per_group, row = kernel.shape[0] // groups, channels * math.prod(rest)
    split = kernel.reshape(groups, per_group, channels, first, *rest)
    rows = max(1, min(first, INNER // row))
    parts = [slice(start, min(start + rows, first)) for start in range(0, first, rows)]
    weights = [
        np.ascontiguousarray(split[:, :, :, part]).reshape(groups, per_group, -1) for part in parts
    ]
    views = _windows(wide, windows, out.shape[2:])
    places = math.prod(out.shape[2:])
    columns = max(LEAST_COLUMNS, COLUMN_ELEMENTS // (rows * row))
    boxes = cut(out.shape[2:], columns)
    together = max(1, columns // places)
    counts = -(-out.shape[0] // together)

    def block(number: int) -> None:
        which, place = divmod(number, len(boxes))
        piece, group = divmod(which, groups)
        examples = slice(piece * together, (piece + 1) * together)
        box = boxes[place][:-1]
        own = views[examples, group * channels : (group + 1) * channels]
        target = out[examples, group * per_group : (group + 1) * per_group]
        target = target[(slice(None), slice(None), *box)]
        total = _total(own, [one[group] for one in weights], parts, box, target)
        if total is not None:
            shaped = total.reshape(per_group, target.shape[0], *target.shape[2:])
            target[...] = np.moveaxis(shaped, 0, 1)

    context.blocks(counts * groups * len(boxes), block)


def _total(
    views: Array,
    weights: Sequence[Array],
    parts: Sequence[slice],
    box: tuple[slice | EllipsisType, ...],
    target: Array,
) -> Array | None:
    """The products of all parts of the kernel: [outputs, examples x places]; None if they are in
    the target, where that lies as a matrix does."""
    columns = target.shape[0] * math.prod(target.shape[2:])
    flat = target[0].reshape(target.shape[1], -1) if target.shape[0] == 1 else None
    direct = flat is not None and np.may_share_memory(flat, target)
    total = (
        flat if direct and flat is not None else np.empty((target.shape[1], columns), target.dtype)
    )
    kept = (slice(None),) * (views.ndim - 3 - len(box))
    for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        laid = np.moveaxis(views[(slice(None), slice(None), part, *kept, *box)], 0, -len(box) - 1)
        matrix = laid.reshape(-1, columns)
        if number:
            np.add(total, np.matmul(weight, matrix), out=total)
        else:
            np.matmul(weight, matrix, out=total)
    return None if direct else total


def _windows(array: Array, windows: Sequence[Window], outputs: Sequence[int]) -> Array:
    """[examples, channels, *extents of the kernel, *places] over the same memory."""
    steps = array.strides[2:]
    shape = (*array.shape[:2], *(window.extent for window in windows), *outputs)
    inner = (step * window.dilation for step, window in zip(steps, windows, strict=True))
    outer = (step * window.stride for step, window in zip(steps, windows, strict=True))
    strides = (*array.strides[:2], *inner, *outer)
    return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=False)


def _each(
    wide: Array, kernel: Array, out: Array, windows: Sequence[Window], context: Context
) -> None:
    """Every channel by itself."""
    places = math.prod(out.shape[2:])
    step = max(1, min(out.shape[1], DEPTH_ELEMENTS // places))
    pieces = -(-out.shape[1] // step)

    def block(number: int) -> None:
        example, piece = divmod(number, pieces)
        cut_ = slice(piece * step, (piece + 1) * step)
        target = out[example, cut_]
        room = np.empty(target.shape, target.dtype)
        column = (slice(None), *(None,) * len(windows))
        for count, (place, part) in enumerate(shifts(wide[example, cut_], windows, out.shape[2:])):
            element: tuple[slice | int, ...] = (cut_, 0, *place)
            weight = kernel[element][column]
            if count:
                np.multiply(part, weight, out=room)
                np.add(target, room, out=target)
            else:
                np.multiply(part, weight, out=target)

    context.blocks(out.shape[0] * pieces, block)
