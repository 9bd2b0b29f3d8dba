"""Which nodes of a graph are computed together.

Owns: the cut of the node list into groups: chains of `formula` of one shape, and single nodes.
Must not: change the order of nodes, or know a backend.

A chain writes block by block, while the memory plan was made for one node after the other. A value
of the chain may lie where an operand of the chain lay that the plan took for dead already; that is
sound only if both have the same place, shape and width, since then a block overwrites exactly what
it has read. Everything else ends the chain before that node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph, Node

__all__ = ["MAX_CHAIN_NODES", "Group", "groups", "overlap"]

MAX_CHAIN_NODES: Final = 64


@dataclass(slots=True)
class Group:
    """Indices of nodes, and whether they are a chain of formulas."""

    nodes: list[int]
    chain: bool
    results: dict[int, TensorSpec] = field(default_factory=dict)
    reads: set[int] = field(default_factory=set)


def groups(graph: Graph, offsets: Mapping[int, int]) -> list[Group]:
    """The groups in order. `offsets`: where the plan puts the values that live in the arena."""
    specs = graph.specs()
    found: list[Group] = []
    for index, (first, node) in enumerate(graph.numbered_nodes()):
        group = found[-1] if found else None
        if group is None or not _joins(group, node, first, specs, offsets):
            group = Group([], node.operator == "formula")
            found.append(group)
        group.nodes.append(index)
        group.reads.update(value for value in node.inputs if value not in group.results)
        for place, spec in enumerate(node.outputs):
            group.results[first + place] = spec
    return found


def _joins(
    group: Group,
    node: Node,
    result: int,
    specs: tuple[TensorSpec, ...],
    offsets: Mapping[int, int],
) -> bool:
    if not group.chain or node.operator != "formula" or len(group.nodes) >= MAX_CHAIN_NODES:
        return False
    spec = node.outputs[0]
    if any(other.shape != spec.shape for other in group.results.values()):
        return False
    reads = group.reads | {value for value in node.inputs if value not in group.results}
    writes = {**group.results, result: spec}
    return all(not overlap(read, write, specs, offsets) for read in reads for write in writes)


def overlap(
    read: int, write: int, specs: tuple[TensorSpec, ...], offsets: Mapping[int, int]
) -> bool:
    """Whether writing one value may destroy the other before it was read, block by block."""
    if read not in offsets or write not in offsets:
        return False
    first, second = specs[read], specs[write]
    if offsets[read] == offsets[write] and first.nbytes == second.nbytes:
        return first.shape != second.shape
    return (
        offsets[read] < offsets[write] + second.nbytes
        and offsets[write] < offsets[read] + first.nbytes
    )
