"""A stage of a plan: tasks that do the same to different tiles.

Owns: the numbering of a stage's tasks, their graphs and figures, and who reads what. Must not:
choose loops or steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from gpugoblin.graph.ir import Graph
from gpugoblin.plan.figures import Figures, Totals, measure, roughly, total
from gpugoblin.plan.flow import Flow, Held, Program, Sink, trace
from gpugoblin.plan.spans import Loop, Range, Span, full, length
from gpugoblin.plan.spec import ArrayRegion, OutputPlace, PlannedTask, TaskOutputRef
from gpugoblin.plan.tilegraph import MOST_BLOBS, Tile, build, evaluate, region, shape_of, uniform

__all__ = ["Coordinates", "Stage", "Want", "all_spans", "sink_of"]

_KEPT_GRAPHS: Final = 512
_MOST_KINDS: Final = 1024
_SCANNED: Final = 4096

Coordinates = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Want:
    """A value that a stage makes.

    Args:
        loops: the loop that cuts each axis, None for a whole one.
        places: for each copy of the result the job's output array, or None for an intermediate.
        sums: the loops that cut summed indices of the node that makes it: results are partial.
        layers: the loop over the layers of a held value, some of which are combined by each task.
    """

    value: int
    loops: tuple[int | None, ...]
    places: tuple[int | None, ...] = (None,)
    sums: tuple[tuple[str, int], ...] = ()
    layers: int | None = None


class Stage:
    """The tasks that make `wants`, one for each combination of pieces of `loops`.

    Args:
        held: what is read from earlier stages, by value.
        first: the number of the stage's first task.
    """

    def __init__(
        self,
        flow: Flow,
        wants: Sequence[Want],
        loops: Sequence[Loop],
        held: Mapping[int, Held],
        first: int,
    ) -> None:
        self.flow, self.wants, self.loops, self.first = flow, tuple(wants), tuple(loops), first
        self.count = prod(loop.count for loop in loops)
        self.middle = tuple((loop.count - 1) // 2 for loop in loops)
        self._made: dict[tuple[object, ...], tuple[Graph, Figures]] = {}
        sinks = [sink_of(flow, want, loops) for want in wants]
        middle = [loop.piece(at) for loop, at in zip(loops, self.middle, strict=True)]
        self.program: Program = trace(flow, sinks, held, middle)
        self.clipped = any(
            step[0] == "clip" for span in all_spans(self.program) for step in span.steps()
        )
        self._uneven = _cuts_a_constant(flow, self.program)
        if self._uneven:
            # Parts of a constant are equal where two loops meet, and such tiles compute less.
            self.middle = tuple(
                (loop.count - 1 + number) // 2 % loop.count for number, loop in enumerate(loops)
            )
            middle = self.pieces(self.middle)
        self.typical_tile = evaluate(flow, self.program, middle)
        shared, self.shared_by = self._sharing(self.typical_tile)
        self.strides = self._number(shared)

    def _sharing(self, tile: Tile) -> tuple[frozenset[int], int]:
        """The loops that the largest shared input follows, and how many tasks share the last
        input (the right operand of a product)."""
        best, best_bytes, last = frozenset(range(len(self.loops))), 0, 1
        for instance, box in zip(self.program.instances, tile.boxes, strict=True):
            if box is None or instance.kind not in ("input", "held"):
                continue
            follows = frozenset(span.loop for span in (*instance.spans, instance.layers))
            others = prod(
                loop.count for number, loop in enumerate(self.loops) if number not in follows
            )
            last = others
            nbytes = prod(stop - start for start, stop in box)
            if others > 1 and nbytes > best_bytes:
                best, best_bytes = follows & set(range(len(self.loops))), nbytes
        return best, last

    def _number(self, outer: frozenset[int]) -> tuple[int, ...]:
        """Tasks that share their largest input follow each other; partial results of one piece
        come last of all, next to each other."""
        sums = [loop for want in self.wants for _, loop in want.sums]
        sums += [want.layers for want in self.wants if want.layers is not None]
        rest = [number for number in range(len(self.loops)) if number not in sums]
        order = [n for n in rest if n in outer] + [n for n in rest if n not in outer] + sums
        strides = [1] * len(self.loops)
        stride = 1
        for number in reversed(order):
            strides[number] = stride
            stride *= self.loops[number].count
        shared = [n for n in order if n in outer and n not in sums]
        self.group = prod(
            loop.count for number, loop in enumerate(self.loops) if number not in shared
        )
        return tuple(strides)

    def coordinates(self, offset: int) -> Coordinates:
        return tuple(
            offset // stride % loop.count
            for loop, stride in zip(self.loops, self.strides, strict=True)
        )

    def pieces(self, place: Coordinates) -> list[Range]:
        return [loop.piece(at) for loop, at in zip(self.loops, place, strict=True)]

    def offset(self, place: Coordinates) -> int:
        return sum(at * stride for at, stride in zip(place, self.strides, strict=True))

    def needs(self, instance: int) -> bool:
        """Whether tiles need this instance of the program at all (where none is clipped away)."""
        return self.typical_tile.boxes[instance] is not None

    def tile(self, offset: int) -> Tile:
        return evaluate(self.flow, self.program, self.pieces(self.coordinates(offset)))

    def figures(self, place: Coordinates) -> Figures:
        """What the task at `place` takes."""
        pieces = self.pieces(place)
        tile = evaluate(self.flow, self.program, pieces)
        if tile.count > MOST_BLOBS:
            return roughly(self.flow, self.program, tile)
        return self._graph(tile, pieces)[1]

    def task(self, offset: int) -> PlannedTask:
        """The task number `first + offset`."""
        pieces = self.pieces(self.coordinates(offset))
        tile = evaluate(self.flow, self.program, pieces)
        graph, figures = self._graph(tile, pieces)
        places = [
            OutputPlace(place, region(box))
            for want, box in zip(self.wants, tile.sinks, strict=True)
            for place in want.places
        ]
        made_by = {one.task for one in tile.inputs if isinstance(one, TaskOutputRef)}
        return PlannedTask(
            index=self.first + offset,
            graph=graph,
            inputs=tile.inputs,
            outputs=tuple(places),
            verify=figures.verify,
            verify_flops=figures.verify_flops,
            flops=figures.flops,
            bytes_moved=figures.bytes_in + figures.bytes_out,
            memory_bound_bytes=figures.bound_bytes,
            affinity=self.first + offset // self.group,
            depends_on=tuple(sorted(made_by)),
        )

    def _graph(self, tile: Tile, pieces: Sequence[Range]) -> tuple[Graph, Figures]:
        known = self._made.get(tile.key)
        if known is None:
            graph = build(self.flow, self.program, tile, pieces)
            copies = [
                value
                for want, value in zip(self.wants, graph.outputs, strict=True)
                for _ in want.places
            ]
            graph = Graph(graph.inputs, graph.constants, graph.nodes, tuple(copies))
            known = graph, self._measure(graph, tile)
            if len(self._made) >= _KEPT_GRAPHS:
                self._made.clear()
            self._made[tile.key] = known
        return known

    def _measure(self, graph: Graph, tile: Tile) -> Figures:
        arrays = [
            (source.region.shape, self.flow.graph.inputs[source.array].shape)
            for source in tile.inputs
            if isinstance(source, ArrayRegion)
        ]
        for want, box in zip(self.wants, tile.sinks, strict=True):
            kept = [place for place in want.places if place is not None]
            arrays += [(shape_of(box), self.flow.specs[want.value].shape)] * len(kept)
        found = measure(graph, arrays, self.shared_by)
        if self.flow.ordered:
            # Bits are compared: projections only tell that an error is small.
            found = replace(found, verify="recompute", verify_flops=found.flops)
        return found

    def typical(self) -> Totals:
        """All tasks taken like the one in the middle: quick, and good enough to compare steps."""
        return total([(self.count, self.figures(self.middle))])

    def totals(self) -> Totals:
        """The figures of all tasks, from one of each kind."""
        if self._uneven and self.count <= _MOST_KINDS // 2:
            every = (self.coordinates(offset) for offset in range(self.count))
            return total([(1, self.figures(place)) for place in every])
        kinds = [self._kinds(number) for number in range(len(self.loops))]
        found: list[tuple[int, Figures]] = [(0, self.figures(self.middle))]
        for combination in product(*kinds):
            if len(found) > _MOST_KINDS:
                break
            place = tuple(at for at, _ in combination)
            found.append((prod(count for _, count in combination), self.figures(place)))
        return total(found)

    def _kinds(self, number: int) -> list[tuple[int, int]]:
        """Pieces of a loop of which all others of its kind are copies, with their count."""
        loop = self.loops[number]
        spans = [span for span in all_spans(self.program) if span.loop == number]
        reads = [
            (span, instance.held.loops[axis])
            for instance in self.program.instances
            if instance.held is not None
            for axis, span in enumerate(instance.spans)
            if span.loop == number
        ]
        smooth = all(step[0] in ("slice", "scale") for span in spans for step in span.steps())
        aligned = all(span == Span(number) and other == loop for span, other in reads)
        if smooth and aligned and loop.row == loop.extent and not any(s.parts for s in spans):
            # Every piece is like the first one; only the last one may be shorter.
            last = loop.count - 1
            return [(0, last), (last, 1)] if last else [(0, 1)]
        pairs = self._pairs(number)
        pieces = self.pieces(self.middle)
        numbers: Iterable[int] = range(loop.count)
        if loop.count > _SCANNED:
            half = _SCANNED // 2
            numbers = (*range(half), *range(loop.count - half, loop.count))
        seen: dict[tuple[object, ...], int] = {}
        counts: Counter[tuple[object, ...]] = Counter()
        for at in numbers:
            pieces[number] = loop.piece(at)
            kind: list[object] = [span.length(pieces) for span in spans]
            kind += [tuple(map(length, other.under(span.at(pieces)))) for span, other in reads]
            kind += [one.at(pieces) == other.at(pieces) for one, other in pairs]
            seen.setdefault(tuple(kind), at)
            counts[tuple(kind)] += 1
        # A longer loop repeats what was seen of it: the most frequent kind stands for the rest.
        if loop.count > _SCANNED:
            counts[counts.most_common(1)[0][0]] += loop.count - _SCANNED
        return [(at, counts[kind]) for kind, at in seen.items()]

    def _pairs(self, number: int) -> list[tuple[Span, Span]]:
        """Spans of a loop that are read from larger ones."""
        found: dict[tuple[Span, Span], None] = {}
        for instance in self.program.instances:
            for edge in instance.operands:
                source = self.program.instances[edge.source].spans
                for pair in zip(edge.spans, source, strict=True):
                    if pair[0].loop == number and pair[0] != pair[1]:
                        found[pair] = None
        return list(found)

    def held(self, want: Want, combine: str = "") -> Held:
        """What a later stage reads of a want whose first copy is an intermediate."""
        spec = self.flow.specs[want.value]
        loops, strides = [], []
        for extent, number in zip(spec.shape, want.loops, strict=True):
            loops.append(Loop(extent, max(1, extent), extent) if number is None
                         else self.loops[number])  # fmt: skip
            strides.append(0 if number is None else self.strides[number])
        layers = [loop for _, loop in want.sums]
        layers += [] if want.layers is None else [want.layers]
        slot = sum(len(other.places) for other in self.wants[: self.wants.index(want)])
        return Held(
            spec, tuple(loops), prod(self.loops[n].count for n in layers), combine, self.first,
            tuple(strides), slot,
        )  # fmt: skip


def sink_of(flow: Flow, want: Want, loops: Sequence[Loop] | None = None) -> Sink:
    """The part of a want's value that one tile makes.

    Args:
        loops: those of one piece cut nothing, so their axes count as whole.
    """

    def span(loop: int | None, extent: int) -> Span:
        whole = loop is None or (loops is not None and loops[loop].count == 1)
        return full(extent) if whole or loop is None else Span(loop)

    shape = flow.specs[want.value].shape
    sums = ((index, loop) for index, loop in want.sums if loops is None or loops[loop].count > 1)
    return Sink(
        want.value,
        tuple(span(loop, extent) for extent, loop in zip(shape, want.loops, strict=True)),
        tuple((index, Span(loop)) for index, loop in sums),
        None if want.layers is None else Span(want.layers),
    )


def _cuts_a_constant(flow: Flow, program: Program) -> bool:
    """Whether tiles hold different parts of a constant."""
    return any(
        instance.kind == "constant"
        and any(span.loop >= 0 for span in instance.spans)
        and not uniform(flow.graph.constants[instance.number])
        for instance in program.instances
    )


def all_spans(program: Program) -> list[Span]:
    """Every different span of a program."""
    spans: dict[Span, None] = {}
    for instance in program.instances:
        spans.update(dict.fromkeys((*instance.spans, instance.layers)))
        for edge in instance.operands:
            spans.update(dict.fromkeys(edge.spans))
    for edge in program.sinks:
        spans.update(dict.fromkeys(edge.spans))
    return list(spans)
