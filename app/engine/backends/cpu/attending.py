"""attention on the processor: the scores of some rows at a time. Owns the kernel.

A block is some rows of one head: its scores stay in the cache from the first product to the second,
so no matrix of all scores is ever there. The sum of a row's powers divides the result, not the
weights, which are more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.rows import ROWS, ready
from app.engine.context import Context
from gpugoblin.catalog.rules import bool_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["attention"]

SCORE_ELEMENTS: Final = 1 << 18


def attention(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    query, key, value, scale, *masks = reads
    out = writes[0]
    if out.size == 0:
        return
    rows, columns = query.shape[-2], key.shape[-2]
    if columns == 0:
        out[...] = 0
        return
    batch = query.shape[:-2]
    mask = np.broadcast_to(masks[0], (*batch, rows, columns)) if masks else None
    causal = bool_attribute(attributes, "causal")
    step = max(1, min(rows, SCORE_ELEMENTS // columns))
    pieces = -(-rows // step)

    def block(number: int) -> None:
        head, piece = divmod(number, pieces)
        where = np.unravel_index(head, batch) if batch else ()
        cut = slice(piece * step, min((piece + 1) * step, rows))
        scores = np.matmul(query[where][cut], key[where].T)
        # The loops of `rows.py` multiply as they look for the largest.
        later = ROWS is not None and mask is None and not causal and ready(scores)
        if not later:
            np.multiply(scores, scale, out=scores)
        if mask is not None:
            part = mask[where][cut]
            if part.dtype == np.bool_:
                np.copyto(scores, -math.inf, where=~part)
            else:
                np.add(scores, part, out=scores)
        if causal:
            seen = np.arange(cut.start, cut.stop)[:, None] >= np.arange(columns)
            np.copyto(scores, -math.inf, where=~seen)
        total = _powers(scores, float(scale) if later else 1.0)
        np.divide(np.matmul(scores, value[where]), total, out=out[where][cut])

    context.blocks(math.prod(batch) * pieces, block)


def _powers(scores: Array, scale: float) -> Array:
    """The scores become the powers of softmax; returns their sums. `scale` is 1 where the loops of
    `rows.py` are not there. A row with NaN has a NaN for a sum, and so only NaN in its result."""
    if ROWS is not None and ready(scores):
        total = np.empty((scores.shape[0], 1), np.float32)
        ROWS.powers(scores, scale, total)
        return total
    np.subtract(scores, scores.max(axis=1, keepdims=True), out=scores)
    np.exp(scores, out=scores)
    return np.asarray(scores.sum(axis=1, keepdims=True))
