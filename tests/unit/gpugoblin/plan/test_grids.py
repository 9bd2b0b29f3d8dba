"""Grids of blocks."""

from __future__ import annotations

import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.plan.grids import Grid, pieces_under, shape_of
from gpugoblin.plan.spans import make_loop
from gpugoblin.plan.spec import ArrayRegion, Region, TaskOutputRef

SPEC = TensorSpec("float32", (10, 7))
LOOPS = (make_loop(10, 4), make_loop(7, 5))


def test_blocks_of_an_array_are_regions() -> None:
    grid = Grid(SPEC, LOOPS, array=3)
    assert grid.counts == (3, 2)
    assert list(grid.places())[:3] == [(0, 0), (0, 1), (1, 0)]
    start, stop = zip(*grid.box((2, 1)), strict=True)
    assert grid.block((2, 1)) == ArrayRegion(3, Region(start, stop))
    assert stop == (10, 7)
    covered = sum(shape_of(grid.box(p))[0] * shape_of(grid.box(p))[1] for p in grid.places())
    assert covered == 70


def test_blocks_of_tasks_are_their_outputs() -> None:
    grid = Grid(SPEC, LOOPS, parts={(0, 0): TaskOutputRef(5, 1)})
    assert grid.block((0, 0)) == TaskOutputRef(5, 1)
    with pytest.raises(LookupError):
        grid.region(Region((0, 0), (1, 1)))


def test_which_blocks_a_box_touches() -> None:
    grid = Grid(SPEC, LOOPS, array=0)
    edge = grid.box((0, 0))[0][1]
    assert list(pieces_under(grid, ((edge - 1, edge + 1), (0, 1)))) == [(0, 0), (1, 0)]
    assert len(list(pieces_under(grid, ((0, 10), (0, 7))))) == 6
