"""Boxes of an array that are small enough for the cache. Owns that cut and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

__all__ = ["BLOCK_ELEMENTS", "blocks"]

BLOCK_ELEMENTS: Final = 1 << 16


def blocks(shape: tuple[int, ...], limit: int = BLOCK_ELEMENTS) -> Iterator[tuple[slice, ...]]:
    """Cuts `shape` into boxes of at most `limit` elements, in C order; none if it is empty.

    Trailing axes stay whole as long as they fit, so that a box is long runs of memory.
    """
    steps = list(shape)
    room = limit
    for axis in range(len(shape) - 1, -1, -1):
        steps[axis] = max(1, min(shape[axis], room))
        room //= steps[axis]
    ranges = [
        [slice(start, min(start + step, extent)) for start in range(0, extent, step)]
        for extent, step in zip(shape, steps, strict=True)
    ]
    return product(*ranges)
