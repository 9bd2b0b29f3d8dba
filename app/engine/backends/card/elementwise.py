"""Chains of formulas on a card: one dispatch, one thread for one or four elements.

Owns: the kernel of a chain. Values of the chain that nobody else reads exist in registers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.engine.backends.card.functions import evaluate
from app.engine.backends.card.kernel import Kernel, Value
from app.engine.backends.card.spirv import WIDTHS
from app.engine.backends.card.stages import (
    THREADS,
    Stage,
    coordinates,
    merged,
    place_of,
    row_major,
    stage,
)
from app.engine.backends.card.target import target
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Node

__all__ = ["chain", "steps_against", "tree_of"]

VECTOR: Final = 4
VECTOR_FLOPS: Final = 160
"""A chain of more than that is written for one element a thread: its module would grow too long."""


def chain(
    nodes: Sequence[Node],
    results: Sequence[int],
    reads: Sequence[int],
    kept: Sequence[int],
    specs: Sequence[TensorSpec],
) -> list[Stage]:
    """The dispatch of a chain; its tensors are `reads`, then `kept`."""
    shape = specs[results[0]].shape
    count = specs[results[0]].count
    if count == 0:
        return []
    kernel = Kernel(len(reads) + len(kept), THREADS, contract=not target().ordered)
    walk = _Walk(kernel, shape, [specs[value] for value in reads])
    lanes = _lanes(nodes, walk)
    index = kernel.flat_group() * THREADS + kernel.local()
    with kernel.when(index < count // lanes):
        found = walk.read(index, lanes)
        rows: list[Mapping[int, Value]] = [
            _values(nodes, results, dict(zip(reads, values, strict=True)), specs)
            for values in found
        ]
        for place, value in enumerate(kept, len(reads)):
            _write(kernel, place, index, [row[value] for row in rows], specs[value].dtype)
    return [stage(kernel, -(-(count // lanes) // THREADS), writes=len(kept))]


def _lanes(nodes: Sequence[Node], walk: _Walk) -> int:
    flops = sum(
        SCALARS[step.function].flops if step.function in SCALARS else 1
        for node in nodes
        for step in tree_of(node).nodes
    )
    fits = walk.count % VECTOR == 0 and flops <= VECTOR_FLOPS and walk.inner % VECTOR == 0
    return VECTOR if fits else 1


def tree_of(node: Node) -> Formula:
    """The tree of a `formula` node."""
    tree = node.attrs["tree"]
    if not isinstance(tree, Formula):
        raise TypeError("the attribute tree of formula must be a Formula")
    return tree


def _values(
    nodes: Sequence[Node],
    results: Sequence[int],
    known: dict[int, Value],
    specs: Sequence[TensorSpec],
) -> Mapping[int, Value]:
    for node, result in zip(nodes, results, strict=True):
        dtypes = [specs[value].dtype for value in node.inputs]
        known[result] = evaluate(tree_of(node), [known[value] for value in node.inputs], dtypes)
    return known


@dataclass(slots=True)
class _Walk:
    """The reads of a chain: operands that broadcast against one shape."""

    kernel: Kernel
    shape: tuple[int, ...]
    operands: Sequence[TensorSpec]
    extents: tuple[int, ...] = field(init=False)
    steps: list[tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        steps = [steps_against(spec.shape, self.shape) for spec in self.operands]
        self.extents, self.steps = merged(self.shape, [*steps, row_major(self.shape)])
        self.steps.pop()

    @property
    def count(self) -> int:
        total = 1
        for extent in self.extents:
            total *= extent
        return total

    @property
    def inner(self) -> int:
        """Elements along which each operand is read in a row, or stays."""
        return self.extents[-1]

    def read(self, index: Value, lanes: int) -> list[list[Value]]:
        """For each lane the value of every operand."""
        first = index * lanes
        places = coordinates(first, self.extents)
        columns = [
            self._operand(number, place_of(places, steps), steps[-1], lanes)
            for number, steps in enumerate(self.steps)
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def _operand(self, number: int, place: Value, step: int, lanes: int) -> list[Value]:
        kernel, kind = self.kernel, self.operands[number].dtype
        if step == 0 or lanes == 1:
            return [kernel.element(kind, number, place)] * lanes
        if step == 1 and WIDTHS.get(f"{kind}x4"):
            address = kernel.place(number, place, WIDTHS[kind])
            return kernel.split(kernel.load_at(f"{kind}x4", address))
        return [kernel.element(kind, number, place + lane * step) for lane in range(lanes)]


def steps_against(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Steps of an operand of `shape` while its reader walks over `target`."""
    own = row_major(shape)
    missing = len(target) - len(shape)
    return (
        *(0,) * missing,
        *(0 if extent == 1 else step for extent, step in zip(shape, own, strict=True)),
    )


def _write(kernel: Kernel, tensor: int, index: Value, values: list[Value], kind: str) -> None:
    lanes = len(values)
    first = index * lanes
    if lanes == VECTOR and WIDTHS.get(f"{kind}x4"):
        kernel.store_at(kernel.place(tensor, first, WIDTHS[kind]), kernel.join(values))
        return
    for lane, value in enumerate(values):
        kernel.store(tensor, first + lane, value, kind)
