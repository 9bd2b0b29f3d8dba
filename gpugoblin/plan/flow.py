"""How the values of a graph flow into one part of its results.

Owns: the symbolic walk from results back to inputs: which part of which value each application
needs, as spans of the loops that cut the results. Must not: build task graphs (`tasks.py` does) or
choose loops (`fit.py` does).

A value that is needed in two parts that do not belong together (the rows and the columns of
`x @ x.T`) is there twice; parts that overlap (neighbors in a stencil) become one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gpugoblin.catalog.spec import FLOATS, Split, TensorSpec
from gpugoblin.graph.ir import Graph, Node
from gpugoblin.plan.spans import Loop, Range, Span, box_of, count_of, full, hull
from gpugoblin.plan.views import demand, sum_splits

__all__ = ["Edge", "Flow", "Held", "Instance", "Program", "Sink", "trace"]

Spans = tuple[Span, ...]

_ONE_LAYER: Final = full(1)


@dataclass(frozen=True, slots=True)
class Flow:
    """A graph with what a walk looks up.

    Args:
        makers: for every value that a node makes, the number of the node's first value, and it.
        ordered: sums of floats have one order (class `exact`).
    """

    graph: Graph
    specs: tuple[TensorSpec, ...]
    makers: Mapping[int, tuple[int, Node]]
    ordered: bool = False

    @classmethod
    def of(cls, graph: Graph, *, ordered: bool = False) -> Flow:
        makers = {
            value: (first, node)
            for first, node in graph.numbered_nodes()
            for value in range(first, first + len(node.outputs))
        }
        return cls(graph, graph.specs(), makers, ordered)

    def operands(self, node: Node) -> tuple[TensorSpec, ...]:
        return tuple(self.specs[value] for value in node.inputs)

    def sums(self, node: Node) -> tuple[Split, ...]:
        """Indices along which partial results of a node may be combined."""
        if self.ordered and any(spec.dtype in FLOATS for spec in node.outputs):
            return ()
        return sum_splits(node, self.operands(node))


@dataclass(frozen=True, slots=True)
class Held:
    """A value that earlier tasks made, as blobs: one for each piece of its loops and each layer.

    Args:
        loops: one an axis.
        layers: partial results for each piece; `combine` names the scalar function that makes one
            of two.
        first: the task of the first piece and layer; others follow by `strides`, layers by 1.
        slot: number of the output of these tasks.
    """

    spec: TensorSpec
    loops: tuple[Loop, ...]
    layers: int
    combine: str
    first: int
    strides: tuple[int, ...]
    slot: int = 0

    @property
    def tiles(self) -> int:
        count = 1
        for loop in self.loops:
            count *= loop.count
        return count


@dataclass(frozen=True, slots=True)
class Edge:
    """The part `spans` of output `output` of instance `source`."""

    source: int
    output: int
    spans: Spans


@dataclass(frozen=True, slots=True)
class Instance:
    """A part of a value that is there as a whole: read (input, constant, held) or computed."""

    kind: Literal["input", "constant", "held", "node"]
    number: int
    spans: Spans
    operands: tuple[Edge, ...] = ()
    held: Held | None = None
    layers: Span = _ONE_LAYER


@dataclass(frozen=True, slots=True)
class Program:
    """All that one tile needs. `instances` are in an order in which they can be computed."""

    instances: tuple[Instance, ...]
    sinks: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """A part of a value that is wanted.

    Args:
        sums: parts of the summed indices of the node that makes it: a partial result is wanted.
        layers: which layers of a held value are wanted; None for all.
    """

    value: int
    spans: Spans
    sums: tuple[tuple[str, Span], ...] = ()
    layers: Span | None = None


_Unit = tuple[int, bool]
"""What makes a value: (its number, True) where it is held, else (first value of its node, False);
the number of an input or a constant is its own."""

_Place = tuple[_Unit, Spans]


def trace(
    flow: Flow, sinks: Sequence[Sink], held: Mapping[int, Held], middle: Sequence[Range]
) -> Program:
    """The program of `sinks`.

    Args:
        held: values that are read rather than computed.
        middle: a typical piece of every loop, to decide whether two parts are worth one hull.
    """
    walk = _Walk(flow, sinks, held, middle)
    for sink in sinks:
        walk.ask(sink.value, sink.spans)
    for number in range(len(flow.specs) - 1, -1, -1):
        for unit in ((number, False), (number, True)):
            if unit in walk.wanted:
                walk.take(unit)
    return walk.program()


class _Walk:
    """The state of one walk, from the last value to the first."""

    def __init__(
        self, flow: Flow, sinks: Sequence[Sink], held: Mapping[int, Held], middle: Sequence[Range]
    ) -> None:
        self._flow, self._sinks, self._held, self._middle = flow, sinks, held, middle
        self.wanted: dict[_Unit, dict[Spans, None]] = {}
        # Last instance first: (instance without operands, (output, place) of each operand).
        self._found: list[tuple[Instance, list[tuple[int, _Place]]]] = []
        self._where: dict[_Place, int] = {}

    def ask(self, value: int, spans: Spans) -> tuple[int, _Place]:
        """Notes that a part is needed; (output of its unit, its place)."""
        made = self._flow.makers.get(value)
        unit = (value, True) if value in self._held else (made[0] if made else value, False)
        self.wanted.setdefault(unit, {})[spans] = None
        return (0 if unit[1] else value - unit[0]), (unit, spans)

    def take(self, unit: _Unit) -> None:
        """Turns all that is wanted of a unit into instances, and asks for their operands."""
        number, held = unit
        for spans, wanted in self._parts(unit):
            for one in wanted:
                self._where[unit, one] = len(self._found)
            if held:
                layers = next(
                    (sink.layers for sink in self._sinks if sink.value == number and sink.layers),
                    full(self._held[number].layers),
                )
                one_held = self._held[number]
                made = Instance("held", number, spans, held=one_held, layers=layers)
                self._found.append((made, []))
            elif number in self._flow.makers:
                _, node = self._flow.makers[number]
                needed = demand(node, self._flow.operands(node), spans, self._sums(number, node))
                places = [
                    self.ask(value, part)
                    for value, part in zip(node.inputs, needed.operands, strict=True)
                ]
                self._found.append((Instance("node", number, needed.computed), places))
            else:
                inputs = len(self._flow.graph.inputs)
                if number < inputs:
                    self._found.append((Instance("input", number, spans), []))
                else:
                    self._found.append((Instance("constant", number - inputs, spans), []))

    def program(self) -> Program:
        last = len(self._found) - 1

        def edge(output: int, place: _Place) -> Edge:
            return Edge(last - self._where[place], output, place[1])

        instances = tuple(
            replace(made, operands=tuple(edge(output, place) for output, place in places))
            for made, places in reversed(self._found)
        )
        sinks = tuple(edge(*self.ask(sink.value, sink.spans)) for sink in self._sinks)
        return Program(instances, sinks)

    def _sums(self, number: int, node: Node) -> dict[str, Span]:
        values = range(number, number + len(node.outputs))
        return {name: span for sink in self._sinks if sink.value in values
                for name, span in sink.sums}  # fmt: skip

    def _parts(self, unit: _Unit) -> list[tuple[Spans, list[Spans]]]:
        """The parts to make, each with the wanted ones that it covers."""
        number, held = unit
        parts: dict[Spans, list[Spans]] = {}
        for wanted in self.wanted[unit]:
            spans = wanted
            if not held and number in self._flow.makers:
                spans = self._computed(number, wanted)
            parts.setdefault(spans, []).append(wanted)
        found = list(parts.items())
        at = 1
        while at < len(found):
            for earlier in range(at):
                joined = self._joined(found[earlier][0], found[at][0])
                if joined is not None:
                    if not held and number in self._flow.makers:
                        joined = self._computed(number, joined)
                    found[earlier] = (joined, found[earlier][1] + found[at][1])
                    del found[at]
                    at = 0
                    break
            at += 1
        return found

    def _computed(self, number: int, wanted: Spans) -> Spans:
        _, node = self._flow.makers[number]
        return demand(node, self._flow.operands(node), wanted).computed

    def _joined(self, first: Spans, second: Spans) -> Spans | None:
        """The hull of two parts, where it is no larger than both."""
        joined: list[Span] = []
        for one, other in zip(first, second, strict=True):
            both = hull(one, other)
            if both is None:
                return None
            joined.append(both)
        sizes = [count_of(box_of(spans, self._middle)) for spans in (first, second, joined)]
        return tuple(joined) if sizes[2] <= sizes[0] + sizes[1] else None
