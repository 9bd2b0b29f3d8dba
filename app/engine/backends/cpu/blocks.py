"""The cut of an array into boxes. Owns it and nothing else.

A cut depends on shapes alone, never on the number of threads: that is what makes results the same
however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

__all__ = ["Box", "cut", "grid"]

Box = tuple[slice | EllipsisType, ...]


def cut(shape: tuple[int, ...], limit: int) -> list[Box]:
    """Boxes of at most `limit` elements in C order, trailing axes whole where they fit.

    Each box ends in an ellipsis: without it a box of a scalar would make a copy, not a view.

    Returns:
        One box for a scalar; none for an array without elements.
    """
    steps = list(shape)
    room = limit
    for axis in range(len(shape) - 1, -1, -1):
        steps[axis] = max(1, min(shape[axis], room))
        room //= steps[axis]
    return grid(shape, steps)


def grid(shape: tuple[int, ...], steps: Sequence[int]) -> list[Box]:
    """Boxes of `steps` elements along each axis, in C order."""
    boxes: list[tuple[slice, ...]] = [()]
    for extent, step in zip(shape, steps, strict=True):
        parts = [slice(start, min(start + step, extent)) for start in range(0, extent, step)]
        boxes = [(*box, part) for box in boxes for part in parts]
    return [(*box, ...) for box in boxes]
