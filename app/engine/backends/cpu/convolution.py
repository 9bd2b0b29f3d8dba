"""conv on the processor: windows laid out as a matrix, one BLAS product a block.

Owns: the blocks, which depend on shapes alone. A block is some places of one group of one example;
the matrix of its windows has at most about a million elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.ops.convolution import conv_windows
from gpugoblin.catalog.rules import int_attribute
from gpugoblin.catalog.spec import Array, Attributes
from gpugoblin.catalog.windows import Window, padded

__all__ = ["conv"]

COLUMN_ELEMENTS: Final = 1 << 20


def conv(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    data, kernel = reads
    out = writes[0]
    if out.size == 0:
        return
    inner = math.prod(kernel.shape[1:])
    if inner == 0:
        out[...] = 0
        return
    groups = int_attribute(attributes, "groups")
    windows = conv_windows(kernel.shape, attributes)
    plain = all(not (w.low or w.high or w.between) for w in windows)
    wide = data if plain else padded(data, windows, 0.0)
    per_group, channels = kernel.shape[0] // groups, kernel.shape[1]
    weights = np.ascontiguousarray(kernel).reshape(groups, per_group, inner)
    views = _windows(wide, windows, out.shape[2:])
    boxes = cut(out.shape[2:], max(1, COLUMN_ELEMENTS // inner))
    count = out.shape[0] * groups

    def block(number: int) -> None:
        which, place = divmod(number, len(boxes))
        example, group = divmod(which, groups)
        box = boxes[place][:-1]
        part = views[example, group * channels : (group + 1) * channels]
        part = part[(slice(None), *(slice(None),) * len(windows), *box)]
        columns = part.reshape(inner, -1)
        target = out[example, group * per_group : (group + 1) * per_group][(slice(None), *box)]
        if target.flags.c_contiguous:
            np.matmul(weights[group], columns, out=target.reshape(per_group, -1))
        else:
            target[...] = np.matmul(weights[group], columns).reshape(target.shape)

    context.blocks(count * len(boxes), block)


def _windows(array: Array, windows: Sequence[Window], outputs: Sequence[int]) -> Array:
    """[examples, channels, *extents of the kernel, *places] over the same memory."""
    steps = array.strides[2:]
    shape = (*array.shape[:2], *(window.extent for window in windows), *outputs)
    inner = (step * window.dilation for step, window in zip(steps, windows, strict=True))
    outer = (step * window.stride for step, window in zip(steps, windows, strict=True))
    strides = (*array.strides[:2], *inner, *outer)
    return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=False)
