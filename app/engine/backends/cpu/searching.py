"""searchsorted on the processor. Owns the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.rules import bool_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["searchsorted"]

SEARCH_ELEMENTS: Final = 64 * 1024


def searchsorted(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    ranks, values = reads
    out = writes[0]
    side = "right" if bool_attribute(attributes, "right") else "left"
    if ranks.ndim == 1:
        ordered = _ordered(ranks)
        boxes = cut(out.shape, SEARCH_ELEMENTS)

        def block(number: int) -> None:
            box = boxes[number]
            out[box] = np.searchsorted(ordered, values[box], side)  # type: ignore[call-overload]

        context.blocks(len(boxes), block)
        return
    rows = list(np.ndindex(out.shape[:-1]))

    def row(number: int) -> None:
        place = rows[number]
        out[place] = np.searchsorted(_ordered(ranks[place]), values[place], side)  # type: ignore[call-overload]

    context.blocks(len(rows) if out.size else 0, row)


def _ordered(line: Array) -> Array:
    """The line itself where it is sorted, NaN last."""
    head, tail = line[:-1], line[1:]
    if line.dtype.kind == "f":
        sorted_ = bool(((head <= tail) | np.isnan(tail)).all())
    else:
        sorted_ = bool((head <= tail).all())
    return np.ascontiguousarray(line) if sorted_ else np.sort(line)
