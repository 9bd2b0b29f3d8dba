"""Reductions with maps: a group computes whole rows, which it reads once.

Owns: the kernel of such a chain (softmax, norms and their gradients become one or two of them) and
which nodes may join one. Values as long as the row live in registers, some elements a thread;
results of reductions are known to the whole group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from app.engine.backends.card.elementwise import steps_against, tree_of
from app.engine.backends.card.functions import evaluate
from app.engine.backends.card.kernel import Kernel, Shared
from app.engine.backends.card.powers import divide
from app.engine.backends.card.reduction import COMBINE, everybody, identity
from app.engine.backends.card.spirv import WIDTHS
from app.engine.backends.card.stages import Stage, coordinates, merged, place_of, stage
from app.engine.backends.card.target import target
from app.engine.backends.card.values import Value
from gpugoblin.catalog.rules import bool_attribute, ints_attribute, text_attribute
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Node

__all__ = ["RowShape", "row_chain", "row_shape"]

OWN: Final = 16
"""Elements of a row that a thread holds where the row gives them; then come more threads."""
MOST_OWN: Final = 32
VECTOR: Final = 4
MOST_THREADS: Final = 1024
FEW_ROWS: Final = 64
PLAIN: Final = frozenset(
    {
        *("add", "const", "div", "erf", "exp", "input", "max", "mul", "neg", "recip", "rsqrt"),
        *("sqrt", "sub", "tanh"),
    }
)
"""Functions that are right whatever a driver does with NaN and the sign of zero."""
MOST_WORK: Final = 768
"""Nodes times elements a thread: the length of a module."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """`full`: of the values as long as a row; the last `reduced` axes are the row."""

    full: tuple[int, ...]
    reduced: int

    @property
    def short(self) -> tuple[int, ...]:
        """Of the results of reductions."""
        return (*self.full[: len(self.full) - self.reduced], *(1,) * self.reduced)

    @property
    def length(self) -> int:
        return math.prod(self.full[len(self.full) - self.reduced :])

    @property
    def rows(self) -> int:
        return math.prod(self.full[: len(self.full) - self.reduced])

    @property
    def threads(self) -> int:
        wanted = -(-self.length // OWN)
        return max(32, min(MOST_THREADS, 1 << max(0, wanted - 1).bit_length()))

    @property
    def own(self) -> int:
        """Elements a thread; whole vectors where the row has them."""
        least = -(-self.length // self.threads)
        return -(-least // VECTOR) * VECTOR if self.length % VECTOR == 0 else least

    @property
    def lanes(self) -> int:
        """Neighbors in the row that one thread holds."""
        return VECTOR if self.length % VECTOR == 0 else 1

    def inside(self, number: int) -> bool:
        """Is this element of every thread within the row?"""
        return (number // self.lanes + 1) * self.threads * self.lanes <= self.length


def row_shape(nodes: Sequence[Node], specs: Sequence[TensorSpec]) -> RowShape | None:
    """The common shape of nodes that can be computed row by row; None where there is none."""
    if target().ordered:
        return None
    shape: RowShape | None = None
    for node in nodes:
        if node.operator != "reduce":
            continue
        full, axes = specs[node.inputs[0]].shape, ints_attribute(node.attrs, "axes")
        trailing = tuple(range(len(full) - len(axes), len(full)))
        if not axes or axes != trailing or not bool_attribute(node.attrs, "keepdims"):
            return None
        found = RowShape(full, len(axes))
        if shape is not None and shape != found:
            return None
        shape = found
    if shape is None or not _suits(shape, len(nodes)):
        return None
    for node in nodes:
        wanted = (shape.full, shape.short) if node.operator == "formula" else (shape.short,)
        if node.operator not in ("formula", "reduce") or node.outputs[0].shape not in wanted:
            return None
    return shape


def _suits(shape: RowShape, nodes: int) -> bool:
    if shape.length < 2 or shape.rows == 0 or shape.own > MOST_OWN:
        return False
    enough = shape.rows >= FEW_ROWS or shape.length <= MOST_THREADS
    return enough and shape.own * nodes <= MOST_WORK


def row_chain(
    shape: RowShape,
    nodes: Sequence[Node],
    results: Sequence[int],
    reads: Sequence[int],
    kept: Sequence[int],
    specs: Sequence[TensorSpec],
) -> Stage:
    """The dispatch of a chain; its tensors are `reads`, then `kept`."""
    plain = all(_is_plain(node) for node in nodes)
    kernel = Kernel(len(reads) + len(kept), shape.threads, contract=True, loose=plain)
    row = kernel.flat_group()
    with kernel.when(row < shape.rows):
        chain = _Chain(kernel, shape, row, dict(zip(reads, range(len(reads)), strict=True)), specs)
        for node, result in zip(nodes, results, strict=True):
            chain.add(node, result)
        for place, value in enumerate(kept, len(reads)):
            chain.store(place, value)
    return stage(kernel, shape.rows, writes=len(kept))


def _is_plain(node: Node) -> bool:
    """Does it have only functions that need nothing of a driver?"""
    if node.operator != "formula":
        return True
    return all(step.function in PLAIN for step in tree_of(node).nodes)


@dataclass(slots=True)
class _Chain:
    """Values of one row: a list of own elements, or one value that the group knows."""

    kernel: Kernel
    shape: RowShape
    row: Value
    tensors: dict[int, int]
    specs: Sequence[TensorSpec]
    known: dict[int, list[Value]] = field(default_factory=dict)
    shared: dict[str, Shared] = field(default_factory=dict)

    def place(self, number: int) -> Value:
        """The place in the row of one of this thread's elements."""
        shape = self.shape
        piece, lane = divmod(number, shape.lanes)
        return self.kernel.local() * shape.lanes + (piece * shape.threads * shape.lanes + lane)

    def _clamped(self, number: int) -> Value:
        """The same, and the last element of the row where that is beyond it."""
        place = self.place(number)
        if self.shape.inside(number):
            return place
        last = self.shape.length - self.shape.lanes + number % self.shape.lanes
        known = self.kernel.number("uint32", last)
        return self.kernel.select(place < self.shape.length, place, known)

    def value(self, value: int) -> list[Value]:
        """The elements of a value; one where it is the same along the row."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._loaded(value)
        return found

    def _loaded(self, value: int) -> list[Value]:
        spec, kernel = self.specs[value], self.kernel
        steps = steps_against(spec.shape, self.shape.full)
        cut = len(self.shape.full) - self.shape.reduced
        outer, (before,) = merged(self.shape.full[:cut], [steps[:cut]])
        inner, (along,) = merged(self.shape.full[cut:], [steps[cut:]])
        base = place_of(coordinates(self.row, outer), before)
        if not any(along):
            return [kernel.element(spec.dtype, self.tensors[value], base)]
        vector = f"{spec.dtype}x4"
        if along == (1,) and self.shape.lanes == VECTOR and vector in WIDTHS:
            found: list[Value] = []
            for number in range(0, self.shape.own, VECTOR):
                at = kernel.place(self.tensors[value], base + self._clamped(number), 4)
                found += kernel.split(kernel.load_at(vector, at))
            return found
        return [
            kernel.element(
                spec.dtype,
                self.tensors[value],
                base + place_of(coordinates(self._clamped(number), inner), along),
            )
            for number in range(self.shape.own)
        ]

    def add(self, node: Node, result: int) -> None:
        if node.operator == "reduce":
            self.known[result] = [self._reduced(node)]
            return
        operands = [self.value(value) for value in node.inputs]
        long = node.outputs[0].shape == self.shape.full != self.shape.short
        count = self.shape.own if long else 1
        formula = tree_of(node)
        dtypes = [self.specs[value].dtype for value in node.inputs]
        if all(len(operand) == 1 for operand in operands):
            self.known[result] = [evaluate(formula, [operand[0] for operand in operands], dtypes)]
            return
        self.known[result] = [
            evaluate(formula, [operand[number % len(operand)] for operand in operands], dtypes)
            for number in range(count)
        ]

    def _reduced(self, node: Node) -> Value:
        kernel, function = self.kernel, text_attribute(node.attrs, "function")
        kind, combine = self.specs[node.inputs[0]].dtype, COMBINE[function]
        elements = self.value(node.inputs[0])
        neutral = kernel.number(kind, identity(function, kind))
        total: Value | None = None
        for number in range(self.shape.own):
            element = elements[number % len(elements)]
            if not self.shape.inside(number):
                inside = self.place(number) < self.shape.length
                element = kernel.select(inside, element, neutral)
            total = element if total is None else combine(total, element)
        if kind not in self.shared:
            self.shared[kind] = kernel.shared(kind, self.shape.threads)
        shared = self.shared[kind]
        kernel.barrier()  # an earlier reduction may still be read
        found = everybody(kernel, shared, neutral if total is None else total, combine)
        if function == "mean":
            found = divide(found, kernel.number("float32", float(self.shape.length)))
        return found

    def store(self, tensor: int, value: int) -> None:
        kernel, spec = self.kernel, self.specs[value]
        elements = self.value(value)
        if spec.shape == self.shape.short:
            with kernel.when(kernel.local().same(0)):
                kernel.store(tensor, self.row, elements[0], spec.dtype)
            return
        base = self.row * self.shape.length
        if self.shape.lanes == VECTOR and f"{spec.dtype}x4" in WIDTHS:
            self._store_vectors(tensor, base, elements)
            return
        for number in range(self.shape.own):
            element = elements[number % len(elements)]
            place = self.place(number)
            if self.shape.inside(number):
                kernel.store(tensor, base + place, element, spec.dtype)
                continue
            with kernel.when(place < self.shape.length):
                kernel.store(tensor, base + place, element, spec.dtype)

    def _store_vectors(self, tensor: int, base: Value, elements: list[Value]) -> None:
        kernel = self.kernel
        for first in range(0, self.shape.own, VECTOR):
            numbers = range(first, first + VECTOR)
            joined = kernel.join([elements[number % len(elements)] for number in numbers])
            place = self.place(first)
            at = kernel.place(tensor, base + place, 4)
            if self.shape.inside(first):
                kernel.store_at(at, joined)
                continue
            with kernel.when(place < self.shape.length):
                kernel.store_at(at, joined)
