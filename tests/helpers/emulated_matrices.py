"""Matrices of a subgroup made of ordinary numbers, for cards that have no matrix units.

Owns: the stand-in for `MatrixKernel`, with which a kernel's tiles, turns and edges are computed on
a software card. A matrix is read where it is multiplied; each thread holds some elements of sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.engine.backends.card.kernel import Kernel, Shared, Variable
from app.engine.backends.card.matrices import Matrix
from app.engine.backends.card.narrow import decoded
from app.engine.backends.card.values import Value

__all__ = ["SUBGROUP", "EmulatedKernel", "EmulatedVectors"]

SUBGROUP = 8
"""Threads of a subgroup on Mesa's software."""


class EmulatedVectors:
    """As `Vectors`, of single words."""

    def __init__(self, kernel: Kernel, kind: str, count: int) -> None:
        self.kernel, self.kind = kernel, kind
        wide = kind.endswith("x4")
        self.words = Shared(kernel, "uint32" if wide else kind, 4 * count if wide else count)

    def get(self, index: Value | int) -> Value:
        return self.words.get(index)

    def set(self, index: Value, value: Value) -> None:
        for part, word in enumerate(self.kernel.split(value)):
            self.words.set(index * 4 + part, word)


@dataclass
class Read:
    """A matrix in shared memory, not read yet."""

    matrix: Matrix
    shared: EmulatedVectors
    index: Value
    stride: int
    turned: bool

    def element(self, row: Value, column: Value) -> Value:
        outer, inner = (column, row) if self.turned else (row, column)
        halves = (self.index + outer * self.stride) * 8 + inner
        word = self.shared.words.get(halves // 2)
        half = word >> ((halves % 2) * 16)
        return decoded((half & 0xFFFF).as_("uint16"), self.matrix.kind)


class Sums:
    """A matrix of sums: each thread's elements."""

    def __init__(self, kernel: EmulatedKernel, matrix: Matrix) -> None:
        self.matrix = matrix
        count = matrix.rows * matrix.columns // SUBGROUP
        self._held: list[Variable] = [kernel.variable("float32") for _ in range(count)]

    def get(self) -> list[Value]:
        return [one.get() for one in self._held]

    def set(self, values: list[Value]) -> None:
        for one, value in zip(self._held, values, strict=True):
            one.set(value)


class EmulatedKernel(Kernel):
    """As `MatrixKernel`."""

    def __init__(self, addresses: int, threads: int) -> None:
        super().__init__(addresses, threads, contract=True, loose=True)
        self.module.need(61)

    def subgroup(self) -> Value:
        return self.local() // SUBGROUP

    def held(self, matrix: Matrix) -> Sums:
        return Sums(self, matrix)

    def zeros(self, matrix: Matrix) -> list[Value]:
        return [self.number("float32", 0.0)] * (matrix.rows * matrix.columns // SUBGROUP)

    def load_matrix(
        self, matrix: Matrix, shared: Any, index: Value, stride: int, *, turned: bool
    ) -> Read:
        return Read(matrix, shared, index, stride, turned)

    def _places(self, matrix: Matrix) -> list[tuple[Value, Value]]:
        """Row and column of each element of this thread."""
        lane = self.local() % SUBGROUP
        numbers = [
            lane + piece * SUBGROUP for piece in range(matrix.rows * matrix.columns // SUBGROUP)
        ]
        return [(number // matrix.columns, number % matrix.columns) for number in numbers]

    def multiply_add(self, left: Read, right: Read, sums: list[Value], kind: Matrix) -> list[Value]:
        totals = [self.variable("float32", value) for value in sums]
        with self.loop(0, left.matrix.columns) as term:
            for (row, column), total in zip(self._places(kind), totals, strict=True):
                share = left.element(row, term) * right.element(term, column)
                total.set(total.get() + share)
        return [total.get() for total in totals]

    def share_matrix(self, matrix: list[Value], shared: Any, index: Value, stride: int) -> None:
        kind = Matrix("float32", len(matrix) * SUBGROUP // stride, stride, 2)
        for (row, column), value in zip(self._places(kind), matrix, strict=True):
            shared.words.set(index + row * stride + column, value)

    def store_matrix(self, matrix: list[Value], address: Value, stride: int, aligned: int) -> None:
        kind = Matrix("float32", 8, len(matrix) * SUBGROUP // 8, 2)
        for (row, column), value in zip(self._places(kind), matrix, strict=True):
            at = self.make("UConvert", "uint64", row * stride + column)
            self.store_at(address + at * 4, value)

    def meet(self) -> None:
        scope = self.module.constant("uint32", 3)
        self.module.put("ControlBarrier", scope, scope, self.module.constant("uint32", 0x108))
