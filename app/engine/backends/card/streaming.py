"""The fast float32 product: 128 x 128 or 128 x 256 of the result a group, vectors of four.

Owns: its kernel and the shapes that it takes. One tile of each operand lies in shared memory and is
multiplied while the next is on its way to registers. Rows and columns beyond the result are read
from its edge and not stored. After each block of the catalog's longest chain the sums go to the
result, and the next block adds to them there, which costs no registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.engine.backends.card.kernel import Kernel, Shared, Variable
from app.engine.backends.card.stages import Stage, stage
from app.engine.backends.card.values import Value
from gpugoblin.catalog.rounding import MATMUL_BLOCK

if TYPE_CHECKING:
    from app.engine.backends.card.product import Problem

__all__ = ["Shape", "choose", "fits", "streamed", "tile_of"]

THREADS: Final = 256
VECTOR: Final = 4
SPAN: Final = 64
"""Rows and columns of the result that the group's threads cover with one 4 x 4 each."""
LEAST: Final = 64
STRIP: Final = 8
"""Groups that run together share rows and columns: strips of so many tile rows."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows and columns of a group's tile, multiples of 64, and terms of one turn.

    Raises:
        ValueError: the threads cannot share the loads evenly.
    """

    rows: int
    columns: int
    depth: int

    def __post_init__(self) -> None:
        for extent in (self.rows, self.columns):
            if extent % SPAN or self.depth % VECTOR or extent * self.depth % (VECTOR * THREADS):
                raise ValueError(f"no tile of {extent} by {self.depth}")

    @property
    def shared_bytes(self) -> int:
        return 4 * self.depth * (self.rows + self.columns)


LARGE: Final = Shape(256, 128, 32)
PLAIN: Final = Shape(128, 128, 16)
NARROW: Final = Shape(128, 64, 32)
BUSY_GROUPS: Final = 96
"""Groups of large tiles from which on they beat more groups of smaller ones on a large card."""


def choose(problem: Problem, shared_bytes: int) -> Shape | None:
    """The tiles for a product on a card with so much shared memory; None where none fits.

    Measured on one card (docs/decisions); a tuner may know better.
    """
    if -(-problem.m // 256) * -(-problem.n // 128) * problem.batch >= BUSY_GROUPS:
        order = (LARGE, PLAIN, NARROW)
    else:
        order = (NARROW, PLAIN, LARGE)
    for shape in order:
        if shape.shared_bytes <= shared_bytes and fits(problem, shape):
            return shape
    return None


def fits(problem: Problem, shape: Shape) -> bool:
    """Whether every row of both operands and of the result can be read in vectors."""
    return (
        problem.kind == "float32"
        and problem.k % shape.depth == 0
        and problem.k > 0
        and problem.n % VECTOR == 0
        and (not problem.across[0] or problem.m % VECTOR == 0)
        and min(problem.m, problem.n) >= LEAST
    )


@dataclass(slots=True)
class _Operand:
    """One operand on its way: from `base` on, rows (or columns) of the result from `start` on."""

    kernel: Kernel
    tensor: int
    base: Value
    start: Value
    limit: int
    k: int
    inner_first: bool
    extent: int
    depth: int
    shared: Shared

    def vector(self, place: Value, term: Value | int) -> Value:
        """Which vector of the tile holds a place of a term. Neighbors are exchanged from four
        terms to four, so that threads that bring different terms meet different banks."""
        exchanged = place // VECTOR ^ (term // VECTOR % 8)
        return exchanged + term * (self.extent // VECTOR)

    def fetch(self, turn: Value) -> list[Value]:
        """This thread's vectors of the terms from `turn` on."""
        found = []
        for place, term in self._own():
            if self.inner_first:
                row = self._clamped(self.start + place, self.limit - 1)
                at = row * self.k + (turn + term)
            else:
                row = self._clamped(self.start + place, self.limit - VECTOR)
                at = (turn + term) * self.limit + row
            address = self.kernel.place(self.tensor, self.base + at, 4)
            found.append(self.kernel.load_at("float32x4", address))
        return found

    def _clamped(self, row: Value, last: int) -> Value:
        if self.limit % self.extent == 0:
            return row
        return self.kernel.select(row < last, row, self.kernel.number("uint32", last))

    def _own(self) -> list[tuple[Value, Value]]:
        """Place in the tile and term of each vector that this thread brings."""
        local = self.kernel.local()
        found = []
        for piece in range(self.extent * self.depth // VECTOR // THREADS):
            number = local + piece * THREADS
            if self.inner_first:
                across = self.depth // VECTOR
                found.append((number // across, (number % across) * VECTOR))
            else:
                across = self.extent // VECTOR
                found.append(((number % across) * VECTOR, number // across))
        return found

    def put(self, vectors: list[Value]) -> None:
        """Into the tile: vectors along the result, one row of them a term."""
        kernel = self.kernel
        for (place, term), vector in zip(self._own(), vectors, strict=True):
            if self.inner_first:
                for part, value in enumerate(kernel.split(vector)):
                    row = self.vector(place, term) + part * (self.extent // VECTOR)
                    self.shared.set_part(row, place % VECTOR, value)
            else:
                self.shared.set(self.vector(place, term), vector)


def streamed(problem: Problem, shape: Shape) -> Stage:
    """The dispatch of a product that `fits`."""
    kernel = Kernel(3, THREADS, contract=True, loose=True)
    m, n, k = problem.m, problem.n, problem.k
    across, down = -(-n // shape.columns), -(-m // shape.rows)
    depth = shape.depth
    groups = problem.batch * across * down
    shared = [
        kernel.shared("float32x4", depth * extent // VECTOR)
        for extent in (shape.rows, shape.columns)
    ]
    group = kernel.flat_group()
    with kernel.when(group < groups):
        batch = group // (across * down)
        down_first, right_first = tile_of(kernel, group % (across * down), across, down)
        row, column = down_first * shape.rows, right_first * shape.columns
        operands = (
            _Operand(
                *(kernel, 0, batch * problem.left_step, row, m, k),
                not problem.across[0],
                shape.rows,
                depth,
                shared[0],
            ),
            _Operand(
                *(kernel, 1, batch * (k * n), column, n, k),
                problem.across[1],
                shape.columns,
                depth,
                shared[1],
            ),
        )
        own = shape.rows // SPAN * VECTOR, shape.columns // SPAN * VECTOR
        sums = [[kernel.variable("float32") for _ in range(own[1])] for _ in range(own[0])]
        mine = _own_corner(kernel)
        with kernel.loop(0, k, MATMUL_BLOCK) as block:
            _block(kernel, operands, sums, mine, block, (k, depth))
            _store(kernel, sums, (row + mine[0], column + mine[1]), block, problem, batch)
    return stage(kernel, groups)


def tile_of(kernel: Kernel, number: Value, across: int, down: int) -> tuple[Value, Value]:
    """Row and column, among the tiles, of a group's tile: in strips of tile rows."""
    full = down // STRIP * STRIP * across
    strip, rest = number // (STRIP * across), number % (STRIP * across)
    left = down % STRIP or STRIP
    last = number >= full
    high = kernel.select(last, left, kernel.number("uint32", STRIP))
    down_first = strip * STRIP + rest % high
    return down_first, rest // high


def _own_corner(kernel: Kernel) -> tuple[Value, Value]:
    """Row and column of this thread's first 4 x 4; the others lie 64 further each. A warp of 32
    covers 32 x 64, in 4 x 8 threads, so that it reads few vectors of either operand."""
    local = kernel.local()
    warp, lane = local // 32, local % 32
    row = (warp // 2) * 16 + (lane // 8) * VECTOR
    column = (warp % 2) * 32 + (lane % 8) * VECTOR
    return row, column


def _block(
    kernel: Kernel,
    operands: tuple[_Operand, _Operand],
    sums: list[list[Variable]],
    mine: tuple[Value, Value],
    block: Value,
    sizes: tuple[int, int],
) -> None:
    """The sums of one block of terms."""
    k, depth = sizes
    for one in (one for line in sums for one in line):
        one.set(0.0)
    kernel.barrier()
    for operand in operands:
        operand.put(operand.fetch(block))
    kernel.barrier()
    stop = block + MATMUL_BLOCK
    stop = kernel.select(stop < k, stop, kernel.number("uint32", k))
    with kernel.loop(block, stop, depth) as turn:
        after = turn + depth
        after = kernel.select(after < stop, after, turn)
        coming = [operand.fetch(after) for operand in operands]
        _multiply(kernel, operands, sums, mine)
        kernel.barrier()
        for operand, vectors in zip(operands, coming, strict=True):
            operand.put(vectors)
        kernel.barrier()


def _multiply(
    kernel: Kernel,
    operands: tuple[_Operand, _Operand],
    sums: list[list[Variable]],
    mine: tuple[Value, Value],
) -> None:
    for term in range(operands[0].depth):
        sides = []
        for operand, corner in zip(operands, mine, strict=True):
            first = operand.vector(corner, term)
            values: list[Value] = []
            for further in range(0, operand.extent // VECTOR, SPAN // VECTOR):
                values += kernel.split(operand.shared.get(first + further))
            sides.append(values)
        for i, left in enumerate(sides[0]):
            for j, right in enumerate(sides[1]):
                sums[i][j].set(sums[i][j].get() + left * right)


def _store(
    kernel: Kernel,
    sums: list[list[Variable]],
    corner: tuple[Value, Value],
    block: Value,
    problem: Problem,
    batch: Value,
) -> None:
    """Adds to what earlier blocks left, and stores; vectors never straddle the edge."""
    m, n = problem.m, problem.n
    for i, line in enumerate(sums):
        for part in range(len(line) // VECTOR):
            row = corner[0] + (i % VECTOR + i // VECTOR * SPAN)
            column = corner[1] + part * SPAN
            with kernel.when((row < m) & (column < n)):
                at = kernel.place(2, batch * (m * n) + row * n + column, 4)
                values = [line[part * VECTOR + j].get() for j in range(VECTOR)]
                found = kernel.variable("float32x4", kernel.join(values))
                if problem.k > MATMUL_BLOCK:
                    with kernel.when(block > 0):
                        before = kernel.split(kernel.load_at("float32x4", at))
                        found.set(
                            kernel.join(
                                [old + new for old, new in zip(before, values, strict=True)]
                            )
                        )
                kernel.store_at(at, found.get())
