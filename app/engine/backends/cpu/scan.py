"""scan_reduce on the processor, in nested blocks as the catalog asks. Owns the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.ops.scan import SCAN_FUNCTIONS
from gpugoblin.catalog.rounding import REDUCE_BLOCK
from gpugoblin.catalog.rules import bool_attribute, int_attribute, text_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["scan_reduce"]

BOX_ELEMENTS: Final = 128 * 1024


def scan_reduce(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Rows of the scanned axis, in boxes that fit the cache where a row does."""
    axis = int_attribute(attributes, "axis")
    ufunc = SCAN_FUNCTIONS[text_attribute(attributes, "function")]
    source, out = (np.moveaxis(array, axis, -1) for array in (reads[0], writes[0]))
    if bool_attribute(attributes, "reverse"):
        source, out = source[..., ::-1], out[..., ::-1]
    boxes = cut(out.shape[:-1], max(1, BOX_ELEMENTS // max(1, out.shape[-1])))

    def block(number: int) -> None:
        box = boxes[number]
        rows = np.ascontiguousarray(source[box])
        np.copyto(out[box], _accumulated(ufunc, rows))

    context.blocks(len(boxes) if out.size else 0, block)


def _accumulated(ufunc: np.ufunc, rows: Array) -> Array:
    """The scan of the last axis: blocks of 512, then what came before each of them."""
    extent, kind = rows.shape[-1], _kind(ufunc, rows)
    result = np.empty_like(rows)
    for start in range(0, extent, REDUCE_BLOCK):
        part = (..., slice(start, start + REDUCE_BLOCK))
        ufunc.accumulate(rows[part], axis=-1, out=result[part], **kind)
    if extent <= REDUCE_BLOCK:
        return result
    ends = np.ascontiguousarray(result[..., REDUCE_BLOCK - 1 :: REDUCE_BLOCK])
    before = _accumulated(ufunc, ends)
    for place, start in enumerate(range(REDUCE_BLOCK, extent, REDUCE_BLOCK)):
        part = (..., slice(start, start + REDUCE_BLOCK))
        ufunc(before[..., place, None], result[part], out=result[part])
    return result


def _kind(ufunc: np.ufunc, rows: Array) -> dict[str, Any]:
    """Sums and products of int32 would otherwise be made in int64."""
    return {"dtype": rows.dtype} if ufunc in (np.add, np.multiply) else {}
