"""random on the processor: any block of the stream by itself. Owns the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.engine.context import Context
from gpugoblin.catalog.ops.chance import draw
from gpugoblin.catalog.rules import text_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["random"]

DRAW_ELEMENTS: Final = 32 * 1024


def random(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    flat = writes[0].reshape(-1)
    function = text_attribute(attributes, "function")

    def block(number: int) -> None:
        start = number * DRAW_ELEMENTS
        stop = min(flat.size, start + DRAW_ELEMENTS)
        flat[start:stop] = draw(reads[0], function, start, stop)

    context.blocks(-(-flat.size // DRAW_ELEMENTS), block)
