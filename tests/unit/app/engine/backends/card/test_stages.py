from __future__ import annotations

import pytest

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.stages import each, grid, merged, place_of, row_major


def test_groups_are_spread() -> None:
    assert grid(7) == (7, 1, 1)
    assert grid(32769) == (32768, 2, 1)
    x, y, _ = grid(10**8)
    assert x * y >= 10**8


def test_steps_of_a_tensor() -> None:
    assert row_major((2, 3, 4)) == (12, 4, 1)
    assert row_major((2, 0, 4)) == (4, 4, 1)
    assert row_major(()) == ()


def test_axes_that_run_on_are_one() -> None:
    assert merged((2, 3, 4), [(12, 4, 1), (12, 4, 1)]) == ((24,), [(1,), (1,)])
    assert merged((2, 3, 4), [(12, 4, 1), (0, 4, 1)]) == ((2, 12), [(12, 1), (0, 1)])
    assert merged((5, 1, 4), [(4, 9, 1)]) == ((20,), [(1,)])
    assert merged((1, 1), [(7, 7)]) == ((1,), [(0,)])
    assert merged((), [()]) == ((1,), [(0,)])


def test_no_threads_for_no_elements() -> None:
    assert each(0, 1, lambda kernel, index: None) == []
    (one,) = each(257, 1, lambda kernel, index: None)
    assert one.groups == (2, 1, 1)


def test_place_needs_an_axis() -> None:
    with pytest.raises(ValueError, match="axis"):
        place_of([], [])
    kernel = Kernel(0)
    assert place_of([kernel.local()], [0], 5).known == 5
