"""Which groups of nodes become one dispatch on a card.

Owns: the joining of chains of formulas and reductions into row chains. The order of nodes stays,
and no group may write where it, or another row of it, still reads (`app.engine.fusion`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.engine.backends.card.rows import RowShape, row_shape
from app.engine.fusion import MAX_CHAIN_NODES, Group, groups, overlap
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph

__all__ = ["joined_groups", "kept_of"]


def joined_groups(graph: Graph, offsets: Mapping[int, int]) -> list[Group]:
    """As `app.engine.fusion.groups`, with reductions joined to the formulas around them."""
    found: list[Group] = []
    for group in groups(graph, offsets):
        whole = _union(graph, found[-1], group, offsets) if found else None
        if whole is None:
            found.append(group)
        else:
            found[-1] = whole
    return found


def _union(graph: Graph, first: Group, second: Group, offsets: Mapping[int, int]) -> Group | None:
    specs = graph.specs()
    nodes = [*first.nodes, *second.nodes]
    shape = None
    if len(nodes) <= MAX_CHAIN_NODES:
        shape = row_shape([graph.nodes[index] for index in nodes], specs)
    if shape is None:
        return None
    reads = first.reads | {value for value in second.reads if value not in first.results}
    results = {**first.results, **second.results}
    writes = kept_of(graph, nodes, list(results))
    pairs = [(read, write) for read in reads for write in writes]
    pairs += [(one, other) for place, one in enumerate(writes) for other in writes[place + 1 :]]
    if any(_clash(*pair, shape, specs, offsets) for pair in pairs):
        return None
    return Group(nodes, True, results, reads)


def kept_of(graph: Graph, nodes: Sequence[int], results: Sequence[int]) -> list[int]:
    """The results that something outside of these nodes reads: the others are never stored."""
    inside = set(nodes)
    outer = {
        value
        for index, node in enumerate(graph.nodes)
        if index not in inside
        for value in node.inputs
    }
    return [value for value in results if value in outer or value in graph.outputs]


def _clash(
    one: int,
    other: int,
    shape: RowShape,
    specs: tuple[TensorSpec, ...],
    offsets: Mapping[int, int],
) -> bool:
    """Of what is as long as a row each thread reads and writes its own elements; what the whole
    group reads must not be written at all."""
    if overlap(one, other, specs, offsets):
        return True
    same = one in offsets and other in offsets and offsets[one] == offsets[other]
    return same and specs[one].shape != shape.full
