"""Loops over an axis, and the ranges of other axes that follow from one piece of a loop.

Owns: their arithmetic. Must not: know operators or graphs.

A plan cuts axes of results by loops. What a tile needs of an operand is a range an axis, and each
range follows from the piece of at most one loop: a `Span` is that function. Spans are made once for
a stage of a plan and evaluated for every task, so a task costs a few additions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

__all__ = [
    "Loop",
    "Map",
    "Range",
    "Span",
    "box_of",
    "count_of",
    "full",
    "hull",
    "length",
    "make_loop",
]

Range = tuple[int, int]
"""`start` included, `stop` not."""

Map = tuple[Literal["slice", "scale", "clip", "align", "outer", "inner", "reach"], int, int]
"""One step of a span, with two integers:

`slice` start, step: positions of a strided view become positions of its source;
`scale` n: an index over groups of n becomes positions;
`clip` offset, extent: the part of the range that lies in one operand of a concatenation;
`align` n: a range that crosses a multiple of n grows to multiples of n;
`outer` n: positions become an index over groups of n;
`inner` n: positions inside of their group, all of them when the range covers whole groups;
`reach` m, n: the multiples of n among the positions and the m after them, as numbers of multiples.
"""

_FIXED: Final = -1


@dataclass(frozen=True, slots=True)
class Loop:
    """An axis cut into pieces of `step`, none of which crosses a multiple of `row`."""

    extent: int
    step: int
    row: int

    @property
    def in_row(self) -> int:
        return max(1, -(-self.row // self.step))

    @property
    def count(self) -> int:
        return max(1, self.extent // self.row * self.in_row) if self.row else 1

    def piece(self, number: int) -> Range:
        row, place = divmod(number, self.in_row)
        start = row * self.row + place * self.step
        return start, min(start + self.step, (row + 1) * self.row)

    def find(self, position: int) -> int:
        """The number of the piece with this position."""
        if self.count == 1:
            return 0
        row, inside = divmod(position, self.row)
        return row * self.in_row + inside // self.step

    def under(self, box: Range) -> list[Range]:
        """The pieces that a range touches."""
        first, last = self.find(box[0]), self.find(max(box[0], box[1] - 1))
        return [self.piece(number) for number in range(first, last + 1)]


def length(given: Range) -> int:
    return given[1] - given[0]


def make_loop(extent: int, step: int, radices: Sequence[int] = ()) -> Loop:
    """A loop of nearly equal pieces of at most about `step`.

    Args:
        radices: sizes of groups that a reshape makes of the axis, each a divisor of the next: a
            piece lies within a group or covers whole groups, so that it stays a box.
    """
    if extent <= 1 or step >= extent:
        return Loop(extent, max(1, extent), extent)
    step = max(1, step)
    grain = max((radix for radix in radices if radix <= step), default=1)
    row = min((radix for radix in radices if radix > step), default=extent)
    step = step // grain * grain
    pieces = -(-row // step)
    level = -(-row // pieces)
    return Loop(extent, min(row, -(-level // grain) * grain), row)


@dataclass(frozen=True, slots=True)
class Span:
    """A range that follows from the piece of a loop.

    Args:
        loop: number of the loop; -1 for a fixed range.
        fixed: the range where there is no loop.
        parts: the span starts from the hull of these (all of the same loop) instead of the piece.
        maps: applied in order.
    """

    loop: int = _FIXED
    fixed: Range = (0, 0)
    parts: tuple[Span, ...] = ()
    maps: tuple[Map, ...] = ()

    def at(self, pieces: Sequence[Range]) -> Range:
        """The range for the given pieces, one a loop."""
        if self.loop == _FIXED:
            return self.fixed
        if self.parts:
            ranges = [part.at(pieces) for part in self.parts]
            ranges = [one for one in ranges if one[1] > one[0]] or ranges[:1]
            found = min(start for start, _ in ranges), max(stop for _, stop in ranges)
        else:
            found = pieces[self.loop]
        for step in self.maps:
            found = _apply(step, found)
        return found

    def length(self, pieces: Sequence[Range]) -> int:
        return length(self.at(pieces))

    def steps(self) -> tuple[Map, ...]:
        """All steps, those of the parts included."""
        return sum((part.steps() for part in self.parts), ()) + self.maps

    def then(self, *maps: Map) -> Span:
        """This span with further steps."""
        if self.loop != _FIXED:
            return replace(self, maps=self.maps + maps)
        found = self.fixed
        for step in maps:
            found = _apply(step, found)
        return Span(fixed=found)


def _apply(step: Map, given: Range) -> Range:
    (kind, a, b), (start, stop) = step, given
    some = stop > start
    match kind:
        case "slice":
            first = a + start * b
            return first, a + (stop - 1) * b + 1 if some else first
        case "scale":
            return start * a, stop * a
        case "clip":
            return min(max(start - a, 0), b), min(max(stop - a, 0), b)
        case "align":
            if some and start // a != (stop - 1) // a:
                return start // a * a, -(-stop // a) * a
            return given
        case "outer":
            return start // a, (stop - 1) // a + 1 if some else start // a
        case "inner":
            if some and start // a != (stop - 1) // a:
                return 0, a
            return start % a, start % a + stop - start
        case "reach":
            first = -(-start // b)
            return first, max(first, (stop - 1 + a) // b + 1) if some else first


def full(extent: int) -> Span:
    return Span(fixed=(0, extent))


def hull(first: Span, second: Span) -> Span | None:
    """The span over both, or None when they follow different loops."""
    if first == second:
        return first
    if first.loop != second.loop:
        return None
    if first.loop == _FIXED:
        starts, stops = zip(first.fixed, second.fixed, strict=True)
        return Span(fixed=(min(starts), max(stops)))
    parts: list[Span] = []
    for span in (first, second):
        parts.extend(span.parts if span.parts and not span.maps else (span,))
    return Span(loop=first.loop, parts=tuple(dict.fromkeys(parts)))


def box_of(spans: Sequence[Span], pieces: Sequence[Range]) -> tuple[Range, ...]:
    return tuple(span.at(pieces) for span in spans)


def count_of(box: Sequence[Range]) -> int:
    """Number of elements of a box."""
    count = 1
    for start, stop in box:
        count *= stop - start
    return count
