"""The fast float32 product: 128 x 128 of the result a group, 8 x 8 a thread, vectors of four.

Owns: its kernel and the shapes that it takes. Two tiles of each operand lie in shared memory: one
is multiplied while the next is on its way. Rows and columns beyond the result are read from its
edge and not stored. After each block of the catalog's longest chain the sums go to the result, and
the next block adds to them there, which costs no registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.engine.backends.vulkan.kernel import Kernel, Shared, Variable
from app.engine.backends.vulkan.stages import Stage, stage
from app.engine.backends.vulkan.values import Value
from gpugoblin.catalog.rounding import MATMUL_BLOCK

if TYPE_CHECKING:
    from app.engine.backends.vulkan.product import Problem

__all__ = ["fits", "streamed"]

TILE: Final = 128
THREADS: Final = 256
VECTOR: Final = 4
PADDED: Final = TILE // VECTOR + 1
"""Vectors of one term of a tile; one more than needed, against collisions of banks."""
STRIP: Final = 16
"""Groups that run together share rows and columns: strips of so many tile rows."""


def fits(problem: Problem, depth: int = 8) -> bool:
    """Whether every row of both operands and of the result can be read in vectors."""
    return (
        problem.kind == "float32"
        and problem.k % depth == 0
        and problem.k > 0
        and problem.n % VECTOR == 0
        and (not problem.across[0] or problem.m % VECTOR == 0)
        and min(problem.m, problem.n) >= TILE // 2
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
    depth: int
    shared: Shared

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
        if self.limit % TILE == 0:
            return row
        return self.kernel.select(row < last, row, self.kernel.number("uint32", last))

    def _own(self) -> list[tuple[Value, Value]]:
        """Place in the tile and term of each vector that this thread brings."""
        local = self.kernel.local()
        found = []
        for piece in range(TILE * self.depth // VECTOR // THREADS):
            number = local + piece * THREADS
            if self.inner_first:
                across = self.depth // VECTOR
                found.append((number // across, (number % across) * VECTOR))
            else:
                across = TILE // VECTOR
                found.append(((number % across) * VECTOR, number // across))
        return found

    def put(self, vectors: list[Value], buffer: Value) -> None:
        """Into one of the two tiles: vectors along the result, one row of them a term."""
        kernel = self.kernel
        for (place, term), vector in zip(self._own(), vectors, strict=True):
            if self.inner_first:
                for part, value in enumerate(kernel.split(vector)):
                    row = (buffer * self.depth + term + part) * PADDED + place // VECTOR
                    self.shared.set_part(row, place % VECTOR, value)
            else:
                row = (buffer * self.depth + term) * PADDED + place // VECTOR
                self.shared.set(row, vector)


def streamed(problem: Problem, depth: int = 8) -> Stage:
    """The dispatch of a product that `fits`."""
    kernel = Kernel(3, THREADS, contract=True)
    m, n, k = problem.m, problem.n, problem.k
    across, down = -(-n // TILE), -(-m // TILE)
    groups = problem.batch * across * down
    shared = [kernel.shared("float32x4", 2 * depth * PADDED) for _ in range(2)]
    group = kernel.flat_group()
    with kernel.when(group < groups):
        batch = group // (across * down)
        row, column = _tile(kernel, group % (across * down), across, down)
        operands = (
            _Operand(
                *(kernel, 0, batch * (m * k), row, m, k),
                not problem.across[0],
                depth,
                shared[0],
            ),
            _Operand(
                *(kernel, 1, batch * (k * n), column, n, k),
                problem.across[1],
                depth,
                shared[1],
            ),
        )
        sums = [[kernel.variable("float32") for _ in range(8)] for _ in range(8)]
        mine = _own_corner(kernel)
        with kernel.loop(0, k, MATMUL_BLOCK) as block:
            _block(kernel, operands, sums, mine, block, (k, depth))
            _store(kernel, sums, (row + mine[0], column + mine[1]), block, problem, batch)
    return stage(kernel, groups)


def _tile(kernel: Kernel, number: Value, across: int, down: int) -> tuple[Value, Value]:
    """First row and column of a group's tile, in strips of tile rows."""
    full = down // STRIP * STRIP * across
    strip, rest = number // (STRIP * across), number % (STRIP * across)
    left = down % STRIP or STRIP
    last = number >= full
    high = kernel.select(last, left, kernel.number("uint32", STRIP))
    down_first = strip * STRIP + rest % high
    return down_first * TILE, (rest // high) * TILE


def _own_corner(kernel: Kernel) -> tuple[Value, Value]:
    """Row and column of this thread's first 4 x 4; the others lie 64 further. A warp of 32 covers
    32 x 64, in 4 x 8 threads, so that it reads few vectors of either operand."""
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
    zero = kernel.number("uint32", 0)
    kernel.barrier()
    for operand in operands:
        operand.put(operand.fetch(block), zero)
    kernel.barrier()
    stop = block + MATMUL_BLOCK
    stop = kernel.select(stop < k, stop, kernel.number("uint32", k))
    with kernel.loop(block, stop, depth) as turn:
        after = turn + depth
        after = kernel.select(after < stop, after, turn)
        coming = [operand.fetch(after) for operand in operands]
        buffer = (turn // depth) & 1
        _multiply(kernel, operands, sums, mine, buffer)
        for operand, vectors in zip(operands, coming, strict=True):
            operand.put(vectors, buffer ^ 1)
        kernel.barrier()


def _multiply(
    kernel: Kernel,
    operands: tuple[_Operand, _Operand],
    sums: list[list[Variable]],
    mine: tuple[Value, Value],
    buffer: Value,
) -> None:
    depth = operands[0].depth
    for term in range(depth):
        sides = []
        for operand, corner in zip(operands, mine, strict=True):
            first = (buffer * depth + term) * PADDED + corner // VECTOR
            values = kernel.split(operand.shared.get(first))
            values += kernel.split(operand.shared.get(first + TILE // 2 // VECTOR))
            sides.append(values)
        for i in range(8):
            for j in range(8):
                sums[i][j].set(sums[i][j].get() + sides[0][i] * sides[1][j])


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
    for i in range(8):
        for half in range(2):
            row = corner[0] + (i % VECTOR + i // VECTOR * (TILE // 2))
            column = corner[1] + half * (TILE // 2)
            with kernel.when((row < m) & (column < n)):
                at = kernel.place(2, batch * (m * n) + row * n + column, 4)
                values = [sums[i][half * VECTOR + j].get() for j in range(VECTOR)]
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
