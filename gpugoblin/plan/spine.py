"""A program as a line: the nodes whose order stages cut, and those that any stage makes again.

Owns: what crosses a place of the line. Must not: choose where to cut.

A mask, a table of positions or the transpose of a weight costs less to make again than to send, so
such nodes belong to no stage: whoever reads them makes them. They follow from constants and from
few bytes of the program's inputs alone. Of what comes from weights only pure movement is made
again, as then each stage's share of the gradient is a share of the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gpugoblin.graph.cost import node_cost
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.figures import FLOPS_PER_BYTE

__all__ = ["Line", "line_of"]

_MOVEMENT: Final = frozenset({"permute", "reshape"})
_SMALL_BYTES: Final = 4096
_MOST_AGAIN: Final = 64
"""Nodes that are made again for one value at most."""


@dataclass(frozen=True, slots=True)
class Line:
    """A program's nodes in order.

    Args:
        spine: numbers of the nodes that stages are made of, in order. Place `p` of the line lies
            before `spine[p]`; the last place behind all.
        again: for each node that is made again by its readers, the nodes that it takes, itself
            included.
        reads: for each node of the spine, the values of other spine nodes that it reads, and the
            program's inputs, those through nodes that are made again included.
        takes: for each node of the spine the nodes that must be made again for it.
        crossing_bytes: at each place, what was made before it and is read behind it.
        flops: of each node of the spine.
        inner_bytes: of all that the node and those made again for it compute, composites expanded.
        weight_bytes: of the weights that each node of the spine reads.
        input_counts: how many of the program's inputs it reads.
        makers: for each value of the spine the place of the node that makes it.
        last_readers: the place of the last node that reads a value.
    """

    graph: Graph
    spine: tuple[int, ...]
    firsts: tuple[int, ...]
    again: Mapping[int, frozenset[int]]
    reads: tuple[tuple[int, ...], ...]
    takes: tuple[frozenset[int], ...]
    crossing_bytes: npt.NDArray[np.int64]
    flops: tuple[int, ...]
    inner_bytes: tuple[int, ...]
    weight_bytes: tuple[int, ...]
    input_counts: tuple[int, ...]
    makers: Mapping[int, int]
    last_readers: Mapping[int, int]


def line_of(graph: Graph, weights: frozenset[int]) -> Line:
    """The line of a program that passes `check`.

    Args:
        weights: numbers of the inputs that are parameters.
    """
    specs = graph.specs()
    outside = len(graph.inputs) + len(graph.constants)
    firsts = tuple(first for first, _ in graph.numbered_nodes())
    owners = {
        value: number
        for number, (first, node) in enumerate(graph.numbered_nodes())
        for value in range(first, first + len(node.outputs))
    }
    again = _made_again(graph, owners, weights)
    spine = tuple(number for number in range(len(graph.nodes)) if number not in again)
    places = {number: place for place, number in enumerate(spine)}
    made = _inner_bytes(graph)
    reads: list[tuple[int, ...]] = []
    takes: list[frozenset[int]] = []
    last: dict[int, int] = {}
    for place, number in enumerate(spine):
        taken = frozenset[int]().union(
            *(again.get(owners.get(value, -1), frozenset()) for value in graph.nodes[number].inputs)
        )
        found = dict.fromkeys(
            value
            for one in (*sorted(taken), number)
            for value in graph.nodes[one].inputs
            if value < len(graph.inputs) or (value >= outside and owners[value] in places)
        )
        takes.append(taken)
        reads.append(tuple(found))
        last.update(dict.fromkeys(found, place))
    makers = {value: places[owner] for value, owner in owners.items() if owner in places}
    steps = np.zeros(len(spine) + 1, np.int64)
    for value, place in makers.items():
        if last.get(value, place) > place:
            steps[place + 1] += specs[value].nbytes
            steps[last[value] + 1] -= specs[value].nbytes
    return Line(
        graph,
        spine,
        firsts,
        again,
        tuple(reads),
        tuple(takes),
        np.cumsum(steps),
        tuple(node_cost(graph.nodes[number], specs).flops for number in spine),
        tuple(
            made[number] + sum(made[one] for one in taken)
            for number, taken in zip(spine, takes, strict=True)
        ),
        tuple(sum(specs[value].nbytes for value in found if value in weights) for found in reads),
        tuple(sum(value < len(graph.inputs) for value in found) for found in reads),
        makers,
        last,
    )


def _made_again(
    graph: Graph, owners: Mapping[int, int], weights: frozenset[int]
) -> dict[int, frozenset[int]]:
    """The nodes that are cheaper made again than sent, with what each takes."""
    specs = graph.specs()
    outputs = set(graph.outputs)
    outside = len(graph.inputs) + len(graph.constants)
    found: dict[int, frozenset[int]] = {}
    for number, (first, node) in enumerate(graph.numbered_nodes()):
        made = range(first, first + len(node.outputs))
        inner = [owners[value] for value in node.inputs if value >= outside]
        if any(value in outputs for value in made) or not all(one in found for one in inner):
            continue
        taken = frozenset({number}).union(*(found[one] for one in inner))
        if len(taken) > _MOST_AGAIN:
            continue
        read = {value for one in taken for value in graph.nodes[one].inputs
                if value < len(graph.inputs)}  # fmt: skip
        if read & weights and any(graph.nodes[one].operator not in _MOVEMENT for one in taken):
            continue
        size = sum(spec.nbytes for spec in node.outputs)
        flops = sum(node_cost(graph.nodes[one], specs).flops for one in taken)
        if sum(specs[value].nbytes for value in read) > size + _SMALL_BYTES:
            continue
        if flops <= FLOPS_PER_BYTE * (size + _SMALL_BYTES):
            found[number] = taken
    return found


def _inner_bytes(graph: Graph) -> list[int]:
    """For each node the bytes of all that it makes, views not counted."""
    sizes = [0] * len(graph.nodes)
    expanded = expand(graph)
    for node, origin in zip(expanded.graph.nodes, expanded.origins, strict=True):
        if node.operator != "reshape":
            sizes[origin] += sum(spec.nbytes for spec in node.outputs)
    return sizes
