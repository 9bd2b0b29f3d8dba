"""One tile: the boxes of all that it needs, the inputs that it reads, and its graph.

Owns: the step from a program and the pieces of its loops to a task graph. Must not: choose pieces.

Equal tiles have equal keys, so that their graph is built once. Whatever has no elements becomes an
empty constant: it is the same whoever computes it, and needs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

import numpy as np

from gpugoblin.catalog.building import joined
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Constant, Graph, Node
from gpugoblin.plan.flow import Edge, Flow, Held, Instance, Program
from gpugoblin.plan.spans import Range, box_of, count_of, length
from gpugoblin.plan.spec import ArrayRegion, Region, TaskOutputRef
from gpugoblin.plan.views import WINDOWED, local_attributes, local_paddings, splits_of

__all__ = [
    "FAN_IN",
    "MOST_BLOBS",
    "Box",
    "Tile",
    "build",
    "evaluate",
    "pieces_under",
    "region",
    "shape_of",
    "uniform",
]

FAN_IN: Final = 16
"""Partial results that one formula combines. An engine keeps a cache block of 512 KiB for each of
its nodes, so 16 of them stay in 16 MiB."""

MOST_BLOBS: Final = 1000

_SCALARS: Final[Mapping[str, str]] = {
    "add": "add",
    "multiply": "mul",
    "maximum": "max",
    "minimum": "min",
    "or": "or",
    "and": "and",
}

Box = tuple[Range, ...]
Source = ArrayRegion | TaskOutputRef


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of a program.

    Args:
        boxes: of every instance; None where this tile does not need it.
        edges: of every instance, the boxes of its operands.
        sinks: the boxes of the results.
        inputs: in the order of the task graph's inputs.
        key: equal for tiles with equal graphs.
        count: number of inputs. Beyond `MOST_BLOBS` they are not listed: no task may have so many.
    """

    boxes: tuple[Box | None, ...]
    edges: tuple[tuple[Box, ...], ...]
    sinks: tuple[Box, ...]
    inputs: tuple[Source, ...]
    key: tuple[object, ...]
    count: int


def region(box: Box) -> Region:
    return Region(tuple(start for start, _ in box), tuple(stop for _, stop in box))


def shape_of(box: Box) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in box)


def pieces_under(held: Held, box: Box) -> tuple[range, ...]:
    """The pieces, one range an axis, that a box with elements touches."""
    return tuple(
        range(loop.find(start), loop.find(max(start, stop - 1)) + 1)
        for loop, (start, stop) in zip(held.loops, box, strict=True)
    )


def evaluate(flow: Flow, program: Program, pieces: Sequence[Range]) -> Tile:
    """The tile of the given pieces, one a loop."""
    instances = program.instances
    boxes: list[Box | None] = [None] * len(instances)
    edges: list[tuple[Box, ...]] = [()] * len(instances)
    needed = [False] * len(instances)
    sinks = tuple(box_of(edge.spans, pieces) for edge in program.sinks)
    for edge, box in zip(program.sinks, sinks, strict=True):
        needed[edge.source] |= count_of(box) > 0
    for place in range(len(instances) - 1, -1, -1):
        if needed[place]:
            instance = instances[place]
            boxes[place] = _own(instance, box_of(instance.spans, pieces))
            edges[place] = tuple(box_of(edge.spans, pieces) for edge in instance.operands)
            for edge, box in zip(instance.operands, edges[place], strict=True):
                needed[edge.source] |= count_of(box) > 0
    inputs: list[Source] = []
    key: list[object] = []
    count = 0
    for place, (instance, own) in enumerate(zip(instances, boxes, strict=True)):
        if own is None:
            continue
        key.append(place)
        key.append(shape_of(own))
        for edge, box in zip(instance.operands, edges[place], strict=True):
            key.append(_relative(_made(flow, instances, boxes, edge), box))
        if instance.kind == "node" and flow.makers[instance.number][1].operator in WINDOWED:
            _, node = flow.makers[instance.number]
            key.append(local_paddings(node, flow.operands(node), edges[place][0], own))
        count += _blobs(instance, own, pieces)
        if count <= MOST_BLOBS:
            key.append(_read(flow, instance, own, pieces, inputs))
    for edge, box in zip(program.sinks, sinks, strict=True):
        key.append(_relative(_made(flow, instances, boxes, edge), box))
    return Tile(tuple(boxes), tuple(edges), sinks, tuple(inputs), tuple(key), count)


def _made(
    flow: Flow, instances: Sequence[Instance], boxes: Sequence[Box | None], edge: Edge
) -> Box | None:
    """The box of the output that an edge reads; instances have that of their first output.

    Outputs of other shapes than the first have its parallel axes, and are whole along all others.
    """
    box, instance = boxes[edge.source], instances[edge.source]
    if box is None or instance.kind != "node" or not edge.output:
        return box
    _, node = flow.makers[instance.number]
    spec = node.outputs[edge.output]
    if spec.shape == node.outputs[0].shape:
        return box
    parallel = {
        split.output for split in splits_of(node, flow.operands(node)) if split.kind == "parallel"
    }
    return tuple(
        box[axis] if axis in parallel else (0, extent) for axis, extent in enumerate(spec.shape)
    )


def _blobs(instance: Instance, own: Box, pieces: Sequence[Range]) -> int:
    """How many inputs of the task graph an instance reads."""
    if instance.held is None:
        return instance.kind == "input"
    under = pieces_under(instance.held, own)
    return prod(map(len, under)) * instance.layers.length(pieces)


def _own(instance: Instance, box: Box) -> Box:
    """The box that is there: blobs are read whole."""
    if instance.held is None:
        return box
    return tuple(
        (loop.piece(under[0])[0], loop.piece(under[-1])[1])
        for loop, under in zip(instance.held.loops, pieces_under(instance.held, box), strict=True)
    )


def _relative(own: Box | None, part: Box) -> Box:
    if own is None:
        return tuple((0, stop - start) for start, stop in part)
    return tuple(
        (start - base, stop - base) for (base, _), (start, stop) in zip(own, part, strict=True)
    )


def _read(
    flow: Flow, instance: Instance, own: Box, pieces: Sequence[Range], inputs: list[Source]
) -> object:
    """Adds what an instance reads to `inputs`; what of it matters for the graph."""
    if instance.kind == "input":
        inputs.append(ArrayRegion(instance.number, region(own)))
    elif instance.kind == "constant":
        return None if uniform(flow.graph.constants[instance.number]) else region(own).start
    elif instance.held is not None:
        held = instance.held
        layers = range(*instance.layers.at(pieces))
        under = pieces_under(held, own)
        for places in product(*under):
            first = held.first + sum(
                place * stride for place, stride in zip(places, held.strides, strict=True)
            )
            inputs.extend(TaskOutputRef(first + layer, held.slot) for layer in layers)
        return len(layers), tuple(
            tuple(length(loop.piece(place)) for place in range_)
            for loop, range_ in zip(held.loops, under, strict=True)
        )
    return None


def uniform(constant: Constant) -> bool:
    """Whether all elements have the same bytes, so that every part of a size is the same."""
    size = DTYPES[constant.spec.dtype].itemsize
    return constant.data == constant.data[:size] * constant.spec.count


def build(flow: Flow, program: Program, tile: Tile, pieces: Sequence[Range]) -> Graph:
    """The task graph of a tile; its outputs are the program's sinks."""
    return _Build(flow, program, tile, pieces).run()


class _Build:
    """The state of one construction."""

    def __init__(self, flow: Flow, program: Program, tile: Tile, pieces: Sequence[Range]) -> None:
        self._flow, self._program, self._tile, self._pieces = flow, program, tile, pieces
        self._builder = GraphBuilder()
        self._values: dict[tuple[int, int], int] = {}

    def run(self) -> Graph:
        for place, (instance, box) in enumerate(
            zip(self._program.instances, self._tile.boxes, strict=True)
        ):
            if box is not None:
                for output, value in enumerate(self._instance(place, instance, box)):
                    self._values[place, output] = value
        outputs = [
            self._part(edge, self._sink_dtype(edge.source, edge.output), box)
            for edge, box in zip(self._program.sinks, self._tile.sinks, strict=True)
        ]
        return self._builder.build(outputs)

    def _sink_dtype(self, place: int, output: int) -> str:
        instance = self._program.instances[place]
        number = instance.number
        if instance.kind == "constant":
            number += len(self._flow.graph.inputs)
        return self._flow.specs[number + output].dtype

    def _instance(self, place: int, instance: Instance, box: Box) -> Sequence[int]:
        if instance.kind == "input":
            spec = self._flow.graph.inputs[instance.number]
            return (self._builder.input(TensorSpec(spec.dtype, shape_of(box))),)
        if instance.kind == "constant":
            array = self._flow.graph.constants[instance.number].array()
            return (self._builder.constant(array[tuple(slice(*one) for one in box)]),)
        if instance.held is not None:
            return (self._held(instance.held, instance, box),)
        return self._node(place, instance, box)

    def _node(self, place: int, instance: Instance, box: Box) -> Sequence[int]:
        _, node = self._flow.makers[instance.number]
        operands: list[int] = []
        for edge, part, spec in zip(
            instance.operands, self._tile.edges[place], self._flow.operands(node), strict=True
        ):
            if node.operator != "concat" or count_of(part):
                operands.append(self._part(edge, spec.dtype, part))
        first = self._builder.spec(operands[0]).shape if operands else ()
        if _moves_nothing(node, len(operands), first, box):
            return operands
        part = self._tile.edges[place][0] if operands else ()
        attributes = dict(local_attributes(node, self._flow.operands(node), part, box))
        return self._builder.apply(node.operator, node.version, operands, {**attributes})

    def _part(self, edge: Edge, dtype: str, part: Box) -> int:
        """A part of what an instance made."""
        if not count_of(part):
            return self._builder.constant(np.zeros(shape_of(part), DTYPES[dtype]))
        value = self._values[edge.source, edge.output]
        own = _made(self._flow, self._program.instances, self._tile.boxes, edge)
        relative = _relative(own, part)
        if shape_of(part) == self._builder.spec(value).shape:
            return value
        return self._builder.add(
            "slice",
            [value],
            start=tuple(start for start, _ in relative),
            stop=tuple(stop for _, stop in relative),
            step=(1,) * len(part),
        )

    def _held(self, held: Held, instance: Instance, box: Box) -> int:
        """The blobs of a held value, layers combined and pieces joined."""
        under = pieces_under(held, box)
        layers = range(*instance.layers.at(self._pieces))
        found: dict[tuple[int, ...], int] = {}
        for places in product(*under):
            shape = tuple(
                length(loop.piece(place)) for loop, place in zip(held.loops, places, strict=True)
            )
            spec = TensorSpec(held.spec.dtype, shape)
            found[places] = self._combine(held, [self._builder.input(spec) for _ in layers])
        for axis in range(len(under) - 1, -1, -1):
            together: dict[tuple[int, ...], list[int]] = {}
            for places, value in found.items():
                together.setdefault(places[:axis], []).append(value)
            found = {
                places: joined(self._builder, values, axis) for places, values in together.items()
            }
        return found[()]

    def _combine(self, held: Held, values: list[int]) -> int:
        while len(values) > 1:
            groups = [values[at : at + FAN_IN] for at in range(0, len(values), FAN_IN)]
            values = [
                self._builder.add("formula", group, tree=_balanced(held.combine, len(group)))
                if len(group) > 1
                else group[0]
                for group in groups
            ]
        return values[0]


def _moves_nothing(node: Node, operands: int, shape: tuple[int, ...], box: Box) -> bool:
    """Whether a movement operator has become the identity on this tile."""
    match node.operator:
        case "concat":
            return operands == 1
        case "reshape" | "broadcast":
            return shape == shape_of(box)
        case "slice":
            return shape == shape_of(box) and prod(shape) > 0
    return False


def _balanced(combine: str, count: int) -> Formula:
    """A balanced tree over `count` inputs: a fixed order, and a short chain of roundings."""
    builder = FormulaBuilder()
    values = [builder.input(number) for number in range(count)]
    name = _SCALARS[combine]
    while len(values) > 1:
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        values = [builder.call(name, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return builder.build(values[0])
