"""grouped_matmul and grouped_outer on the processor: a product a group. Owns the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.context import Context, KernelError
from gpugoblin.catalog.ops.grouped import group_ranges, wrong_sizes
from gpugoblin.catalog.rules import bool_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["grouped_matmul", "grouped_outer"]

BLOCK_ROWS: Final = 256


def _require_sizes(sizes: Array, rows: int) -> None:
    wrong = wrong_sizes(sizes, rows)
    if wrong is not None:
        raise KernelError("index_out_of_range", (wrong, 0, rows))


def grouped_matmul(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Blocks of rows of one group."""
    rows, weights, sizes = reads
    _require_sizes(sizes, rows.shape[0])
    seen = np.swapaxes(weights, 1, 2) if bool_attribute(attributes, "transpose") else weights
    out = writes[0]
    pieces = [
        (group, slice(first, min(first + BLOCK_ROWS, stop)))
        for group, start, stop in group_ranges(sizes)
        for first in range(start, stop, BLOCK_ROWS)
    ]
    used = sum(map(int, sizes))
    out[used:] = 0

    def block(number: int) -> None:
        group, part = pieces[number]
        np.matmul(rows[part], seen[group], out=out[part])

    context.blocks(len(pieces) if out.size else 0, block)


def grouped_outer(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """A group is a block, so that each of its sums is one."""
    left, right, sizes = reads
    _require_sizes(sizes, left.shape[0])
    out = writes[0]
    out[...] = 0
    pieces = list(group_ranges(sizes))

    def block(number: int) -> None:
        group, start, stop = pieces[number]
        np.matmul(left[start:stop].T, right[start:stop], out=out[group])

    context.blocks(len(pieces) if out.size else 0, block)
