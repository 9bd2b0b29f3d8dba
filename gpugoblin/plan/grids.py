"""A matrix as a grid of blocks: regions of an array of the job, or outputs of tasks.

Owns: which block lies where. Must not: write tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.plan.spans import Loop, Range
from gpugoblin.plan.spec import ArrayRegion, Region, TaskOutputRef

__all__ = ["Box", "Grid", "Source", "pieces_under", "shape_of"]

Box = tuple[Range, ...]
Source = ArrayRegion | TaskOutputRef


@dataclass(frozen=True, slots=True)
class Grid:
    """A value cut by one loop an axis.

    Args:
        array: the job's input that it is; else None, and `parts` names every block.
    """

    spec: TensorSpec
    loops: tuple[Loop, ...]
    array: int | None = None
    parts: Mapping[tuple[int, ...], TaskOutputRef] = field(default_factory=dict)

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(loop.count for loop in self.loops)

    def places(self) -> Iterator[tuple[int, ...]]:
        """Of all blocks, the last axis fastest."""
        return product(*(range(count) for count in self.counts))

    def box(self, place: tuple[int, ...]) -> Box:
        return tuple(loop.piece(at) for loop, at in zip(self.loops, place, strict=True))

    def block(self, place: tuple[int, ...]) -> Source:
        if self.array is None:
            return self.parts[place]
        box = self.box(place)
        return self.region(Region(tuple(a for a, _ in box), tuple(b for _, b in box)))

    def region(self, region: Region) -> ArrayRegion:
        """A box of an array of the job."""
        if self.array is None:
            raise LookupError("the grid is no array of the job")
        return ArrayRegion(self.array, region)


def shape_of(box: Box) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in box)


def pieces_under(grid: Grid, box: Box) -> Iterator[tuple[int, ...]]:
    """The places of the blocks that a box touches."""
    ranges = [
        range(loop.find(start), loop.find(max(start, stop - 1)) + 1)
        for loop, (start, stop) in zip(grid.loops, box, strict=True)
    ]
    return product(*ranges)
