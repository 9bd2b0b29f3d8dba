"""Transposition through shared memory: both sides are met in rows. Owns its kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.spirv import WIDTHS
from app.engine.backends.card.stages import THREADS, Stage, coordinates, place_of, stage
from app.engine.backends.card.values import Value

__all__ = ["turn"]

SIDE: Final = 32
ROWS: Final = THREADS // SIDE


def turn(
    kind: str, extents: Sequence[int], reading: Sequence[int], writing: Sequence[int]
) -> Stage | None:
    """Copies a box between two tensors whose rows run along different axes.

    Args:
        kind: an unsigned one. extents: of the box. reading, writing: steps along each axis.

    Returns:
        None where one side has no rows, or both run along the same axis, or the box is thin.
    """
    if 1 not in reading or writing[-1] != 1 or reading[-1] == 1:
        return None
    across, down = list(reading).index(1), len(extents) - 1
    if min(extents[across], extents[down]) < SIDE // 2 or math.prod(extents) == 0:
        return None
    others = [axis for axis in range(len(extents)) if axis not in (across, down)]
    wide, high = (-(-extents[axis] // SIDE) for axis in (across, down))
    groups = wide * high * math.prod(extents[axis] for axis in others)
    kernel = Kernel(2, THREADS)
    stored = "uint32" if WIDTHS[kind] < 4 else kind
    tile = kernel.shared(stored, SIDE * (SIDE + 1))
    local, group = kernel.local(), kernel.flat_group()
    lane, row = local % SIDE, local // SIDE
    with kernel.when(group < groups):
        places = coordinates(group, [*(extents[axis] for axis in others), high, wide])
        left, top = places[-1] * SIDE, places[-2] * SIDE
        steps = [[side[axis] for axis in others] for side in (reading, writing)]
        bases = [
            place_of(places[:-2], side) if others else kernel.number("uint32", 0) for side in steps
        ]
        column = left + lane
        found = []
        for piece in range(0, SIDE, ROWS):  # all at once on their way, those outside from the edge
            x = _within(column, extents[across])
            y = _within(top + row + piece, extents[down])
            found.append(kernel.load(kind, 0, bases[0] + x + y * reading[down]))
        for piece, value in zip(range(0, SIDE, ROWS), found, strict=True):
            tile.set(lane * (SIDE + 1) + row + piece, value.as_(stored))
        kernel.barrier()
        for piece in range(0, SIDE, ROWS):
            x, y = left + row + piece, top + lane
            with kernel.when((x < extents[across]) & (y < extents[down])):
                value = tile.get((row + piece) * (SIDE + 1) + lane).as_(kind)
                kernel.store(1, bases[1] + x * writing[across] + y, value)
    return stage(kernel, groups)


def _within(place: Value, extent: int) -> Value:
    if extent % SIDE == 0:
        return place
    return place.kernel.select(place < extent, place, place.kernel.number("uint32", extent - 1))
