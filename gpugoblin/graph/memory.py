"""The one offset planner, and the one bound on the memory of a task.

Owns: where each intermediate of a graph lies in one arena. The lab node uses `bound` to decide
where a task fits, the engine uses the same plan to run it, so "does not fit" is an answer before
the start and never a failure in the middle. Must not: allocate.

Inputs, outputs and constants lie outside of the arena. A reshape is a view of its operand. A value
that is an output of the graph is written where the output is wanted; when one storage is several
outputs, or an output is an input or a constant, the rest are copies made at the end.

Offsets are given to the largest values first, each in the smallest gap that is free during its
whole life (greedy by size; Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
Inference, 2020, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.cost import cost
from gpugoblin.graph.expand import expand
from gpugoblin.graph.interpret import last_uses
from gpugoblin.graph.ir import Graph

__all__ = ["ALIGNMENT_BYTES", "Life", "MemoryPlan", "align", "bound", "lives", "plan_memory"]

ALIGNMENT_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Life:
    """A storage of the arena: the value that owns it, its aligned size, and the steps (numbers of
    nodes, both included) during which it must keep its bytes."""

    value: int
    size_bytes: int
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where the values of a graph lie.

    Args:
        offsets: for every value in the arena, views included, its offset in bytes.
        arena_bytes: size of the arena, a multiple of 64.
        bases: for every value the value whose storage it uses; itself unless it is a view.
        homes: for every base that is written into an output, the number of that output.
        copies: (output number, value) of the outputs that are copied once all nodes have run.
        scratch_bytes: beside the arena, for one node at a time.
    """

    offsets: Mapping[int, int]
    arena_bytes: int
    bases: tuple[int, ...]
    homes: Mapping[int, int]
    copies: tuple[tuple[int, int], ...]
    scratch_bytes: int


def align(size_bytes: int) -> int:
    """`size_bytes` rounded up to a multiple of 64."""
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def plan_memory(graph: Graph, page_bytes: int = 0, start: int = 0) -> MemoryPlan:
    """The plan of a graph that passes `check`. Deterministic: both sides get the same one.

    Args:
        page_bytes: no value lies across a multiple of it; a multiple of 64, and at least what the
            largest value takes. 0 where all memory is one piece.
        start: where the arena begins in what is cut into these pages.
    """
    specs = graph.specs()
    bases = _bases(graph, len(specs))
    homes, copies = _homes(graph, bases)
    found = _lives(graph, specs, bases, homes)
    offsets, arena_bytes = _place(found, page_bytes or _ONE_PAGE, start)
    return MemoryPlan(
        offsets={value: offsets[base] for value, base in enumerate(bases) if base in offsets},
        arena_bytes=arena_bytes,
        bases=bases,
        homes=homes,
        copies=copies,
        scratch_bytes=align(cost(graph).scratch_bytes),
    )


def bound(graph: Graph) -> int:
    """Bytes that a task with this graph needs at most: inputs, outputs, constants, arena and
    scratch, each aligned to 64. Composites count as what they decompose into: a backend with a
    kernel of its own for one needs no more than that."""
    graph = expand(graph).graph
    plan = plan_memory(graph)
    outside = [*graph.inputs, *graph.output_specs(), *(c.spec for c in graph.constants)]
    return sum(align(spec.nbytes) for spec in outside) + plan.arena_bytes + plan.scratch_bytes


def lives(graph: Graph) -> tuple[Life, ...]:
    """The storages of the arena and when each is needed."""
    specs = graph.specs()
    bases = _bases(graph, len(specs))
    return _lives(graph, specs, bases, _homes(graph, bases)[0])


def _bases(graph: Graph, count: int) -> tuple[int, ...]:
    bases = list(range(count))
    for first, node in graph.numbered_nodes():
        if node.operator == "reshape":
            bases[first] = bases[node.inputs[0]]
    return tuple(bases)


def _homes(
    graph: Graph, bases: tuple[int, ...]
) -> tuple[dict[int, int], tuple[tuple[int, int], ...]]:
    outside = len(graph.inputs) + len(graph.constants)
    homes: dict[int, int] = {}
    copies: list[tuple[int, int]] = []
    for output, value in enumerate(graph.outputs):
        base = bases[value]
        if base < outside or base in homes:
            copies.append((output, value))
        else:
            homes[base] = output
    return homes, tuple(copies)


def _lives(
    graph: Graph,
    specs: tuple[TensorSpec, ...],
    bases: tuple[int, ...],
    homes: Mapping[int, int],
) -> tuple[Life, ...]:
    last: dict[int, int] = {}
    for value, step in last_uses(graph).items():
        last[bases[value]] = max(last.get(bases[value], 0), step)
    found: list[Life] = []
    for step, (first, node) in enumerate(graph.numbered_nodes()):
        for value in range(first, first + len(node.outputs)):
            if bases[value] == value and value not in homes:
                size_bytes = align(specs[value].nbytes)
                found.append(Life(value, size_bytes, step, last.get(value, step)))
    return tuple(found)


_ONE_PAGE: Final = 2**62


def _place(found: tuple[Life, ...], page_bytes: int, start: int) -> tuple[dict[int, int], int]:
    """Offsets by value, and the size of the arena."""
    offsets: dict[int, int] = {}
    placed = np.zeros((4, len(found)), np.int64)  # offset, end, first and last step, by offset
    count = arena_bytes = 0
    for life in sorted(found, key=lambda one: (-one.size_bytes, one.first_step, one.value)):
        if life.size_bytes == 0:
            offsets[life.value] = 0
            continue
        starts, ends, first_steps, last_steps = placed[:, :count]
        meets = (first_steps <= life.last_step) & (last_steps >= life.first_step)
        offset = _gap(starts[meets], ends[meets], life.size_bytes, page_bytes, start)
        offsets[life.value] = offset
        arena_bytes = max(arena_bytes, offset + life.size_bytes)
        place = int(np.searchsorted(starts, offset))
        placed[:, place + 1 : count + 1] = placed[:, place:count].copy()
        placed[:, place] = (offset, offset + life.size_bytes, life.first_step, life.last_step)
        count += 1
    return offsets, arena_bytes


def _gap(
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    size_bytes: int,
    page_bytes: int,
    start: int,
) -> int:
    """The smallest gap of at least `size_bytes` within a page between boxes sorted by start; else
    what comes behind them."""
    reach = np.maximum.accumulate(ends)
    ahead = np.concatenate((np.zeros(1, np.int64), reach))  # where each gap begins, and the rest
    inside = (ahead + start) % page_bytes
    crosses = inside + size_bytes > page_bytes
    begins = np.where(crosses, ahead + page_bytes - inside, ahead)
    room = starts - begins[:-1]
    fits = np.flatnonzero(room >= size_bytes)
    if not len(fits):
        return int(begins[-1])
    return int(begins[fits[np.argmin(room[fits])]])
