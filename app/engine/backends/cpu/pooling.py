"""pool on the processor: one element of the window after the other. Owns the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.ops.pooling import pool_windows
from gpugoblin.catalog.rules import text_attribute
from gpugoblin.catalog.spec import Array, Attributes
from gpugoblin.catalog.windows import padded, shifts

__all__ = ["pool"]

POOL_ELEMENTS: Final = 256 * 1024


def pool(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    source, out = reads[0], writes[0]
    windows = pool_windows(attributes)
    kept = source.ndim - len(windows)
    spots = out.shape[kept:]
    largest = text_attribute(attributes, "function") == "max"
    neutral = -math.inf if largest else 0.0
    ufunc = np.maximum if largest else np.add
    plane = max(1, math.prod(source.shape[kept:]))
    boxes = cut(source.shape[:kept], max(1, POOL_ELEMENTS // plane))

    def block(number: int) -> None:
        box = boxes[number]
        target = out[box]
        target[...] = neutral
        if target.size:
            for _, part in shifts(padded(source[box], windows, neutral), windows, spots):
                ufunc(target, part, out=target)

    context.blocks(len(boxes), block)
