"""fft on the processor: NumPy's own in float32. Owns the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.ops.fourier import transform
from gpugoblin.catalog.rules import ints_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["fft"]

BLOCK_ELEMENTS: Final = 256 * 1024


def fft(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Boxes of the axes before the first transformed one."""
    source, out = reads[0], writes[0]
    axes = ints_attribute(attributes, "axes")
    free = min(axes)
    each = 1
    for extent in source.shape[free:]:
        each *= extent
    boxes = cut(source.shape[:free], max(1, BLOCK_ELEMENTS // max(1, each)))

    def block(number: int) -> None:
        box = boxes[number]
        out[box] = transform(source[box], attributes)

    context.blocks(len(boxes) if out.size else 0, block)
