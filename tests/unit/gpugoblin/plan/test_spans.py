"""Loops and spans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpugoblin.plan.spans import Loop, Span, box_of, count_of, full, hull, length, make_loop


@given(st.integers(0, 60), st.integers(1, 70))
def test_pieces_cover_an_axis_once(extent: int, step: int) -> None:
    loop = make_loop(extent, step)
    pieces = [loop.piece(number) for number in range(loop.count)]
    assert [at for start, stop in pieces for at in range(start, stop)] == list(range(extent))
    assert all(
        loop.find(at) == number for number, (a, b) in enumerate(pieces) for at in range(a, b)
    )
    assert loop.count == max(1, -(-extent // step))
    assert all(length(one) <= step for one in pieces)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 5), st.integers(1, 200))
def test_pieces_are_within_groups_or_cover_whole_ones(a: int, b: int, c: int, step: int) -> None:
    radices = tuple(size for size in (c, b * c) if 1 < size < a * b * c)
    loop = make_loop(a * b * c, step, radices)
    pieces = [loop.piece(number) for number in range(loop.count)]
    assert [at for start, stop in pieces for at in range(start, stop)] == list(range(a * b * c))
    for start, stop in pieces:
        for size in radices:
            inside = start // size == (stop - 1) // size
            assert inside or (start % size == 0 and stop % size == 0)


def test_a_step_keeps_its_loop() -> None:
    loop = make_loop(10, 4)
    assert (loop.step, loop.count) == (4, 3)
    assert make_loop(10, loop.step) == loop
    assert make_loop(0, 5) == Loop(0, 1, 0)
    assert make_loop(0, 5).piece(0) == (0, 0)


def test_under() -> None:
    loop = make_loop(10, 4)
    assert loop.under((3, 5)) == [(0, 4), (4, 8)]
    assert loop.under((4, 8)) == [(4, 8)]
    assert loop.under((8, 8)) == [(8, 10)]


def test_maps_follow_the_piece() -> None:
    span = Span(0)
    assert span.at([(2, 5)]) == (2, 5)
    assert span.then(("slice", 1, 3)).at([(2, 5)]) == (7, 14)
    assert span.then(("scale", 4, 0)).at([(2, 5)]) == (8, 20)
    assert span.then(("clip", 3, 10)).at([(2, 5)]) == (0, 2)
    assert span.then(("clip", 9, 10)).at([(2, 5)]) == (0, 0)
    assert span.then(("align", 4, 0)).at([(2, 5)]) == (0, 8)
    assert span.then(("align", 4, 0)).at([(5, 7)]) == (5, 7)
    assert span.then(("outer", 4, 0)).at([(4, 12)]) == (1, 3)
    assert span.then(("inner", 4, 0)).at([(4, 12)]) == (0, 4)
    assert span.then(("reach", 2, 1)).at([(2, 5)]) == (2, 7)
    assert span.then(("reach", 2, 3)).at([(4, 5)]) == (2, 3)
    assert span.then(("reach", 0, 3)).at([(4, 6)]) == (2, 2)
    assert span.then(("reach", 2, 1)).at([(3, 3)]) == (3, 3)
    assert span.then(("inner", 4, 0)).at([(5, 7)]) == (1, 3)


def test_empty_ranges_stay_empty() -> None:
    for step in (("slice", 1, 3), ("scale", 4, 0), ("clip", 3, 10), ("align", 4, 0)):
        start, stop = Span(0).then(step).at([(5, 5)])
        assert start == stop


def test_fixed_spans_are_mapped_at_once() -> None:
    assert full(6).then(("slice", 2, 1)) == Span(fixed=(2, 8))
    assert full(6).steps() == ()


def test_hulls() -> None:
    first, second = Span(0).then(("slice", 0, 1)), Span(0).then(("slice", 3, 1))
    both = hull(first, second)
    assert both is not None
    assert both.at([(10, 14)]) == (10, 17)
    assert both.steps() == (("slice", 0, 1), ("slice", 3, 1))
    assert hull(first, Span(1)) is None
    assert hull(first, first) == first
    assert hull(Span(fixed=(1, 3)), Span(fixed=(2, 9))) == Span(fixed=(1, 9))


def test_a_hull_leaves_out_what_is_clipped_away() -> None:
    gone = Span(0).then(("clip", 100, 5))
    both = hull(Span(0), gone)
    assert both is not None
    assert both.at([(10, 14)]) == (10, 14)


def test_boxes() -> None:
    box = box_of((Span(0), full(3)), [(2, 6)])
    assert box == ((2, 6), (0, 3))
    assert count_of(box) == 12
    assert count_of(()) == 1
