"""matmul on a card: tiles of the result a group, through memory that the group shares.

Owns: its kernels and the choice of tiles. Operands stay what they are: float32 products of float32.
Chains of additions along the inner index are cut at the catalog's block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.kernel import Kernel, Shared, Variable
from app.engine.backends.card.stages import Stage, stage
from app.engine.backends.card.streaming import choose, streamed
from app.engine.backends.card.values import Value
from gpugoblin.catalog.rounding import MATMUL_BLOCK
from gpugoblin.catalog.rules import bool_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec

__all__ = ["MIDDLE", "SMALL", "Problem", "Tiles", "matmul", "multiplied", "tiled"]


@dataclass(frozen=True, slots=True)
class Tiles:
    """A group makes rows x columns of the result, `own` x `own` a thread, `depth` terms a turn."""

    rows: int
    columns: int
    depth: int
    own: int

    @property
    def threads(self) -> int:
        return self.rows * self.columns // self.own**2


SMALL: Final = Tiles(16, 16, 16, 1)
MIDDLE: Final = Tiles(64, 64, 16, 4)


@dataclass(frozen=True, slots=True)
class Problem:
    """`batch` products of [m, k] and [k, n]; an operand may lie transposed.

    Args:
        shared_left: all have the same left operand.
    """

    kind: str
    batch: int
    m: int
    n: int
    k: int
    across: tuple[bool, bool]
    shared_left: bool = False

    @property
    def left_step(self) -> int:
        """Elements from one left operand to the next."""
        return 0 if self.shared_left else self.m * self.k

    @classmethod
    def of(cls, attributes: Attributes, inputs: Sequence[TensorSpec], out: TensorSpec) -> Problem:
        across = (
            bool_attribute(attributes, "transpose_a"),
            bool_attribute(attributes, "transpose_b"),
        )
        *batch, m, n = out.shape
        k = inputs[0].shape[-2 if across[0] else -1]
        return cls(out.dtype, math.prod(batch), m, n, k, across)

    def groups(self, tiles: Tiles) -> int:
        return self.batch * -(-self.m // tiles.rows) * -(-self.n // tiles.columns)


def matmul(
    attributes: Attributes,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    shared_bytes: int = 16 * 1024,
) -> Emission:
    """The dispatch of a product on a card whose groups share that much memory."""
    problem = Problem.of(attributes, inputs, outputs[0])
    return multiplied(problem, shared_bytes)


def multiplied(problem: Problem, shared_bytes: int) -> Emission:
    """The same by its shapes."""
    if problem.batch * problem.m * problem.n == 0:
        return Emission(())
    shape = choose(problem, shared_bytes)
    if shape is not None:
        return Emission((streamed(problem, shape),))
    tiles = MIDDLE if min(problem.m, problem.n) > 32 else SMALL
    return Emission((tiled(problem, tiles),))


@dataclass(slots=True)
class _Tile:
    """One operand's tile in shared memory: [depth, extent]."""

    kernel: Kernel
    problem: Problem
    tensor: int
    base: Value
    start: Value
    extent: int
    limit: int
    depth: int
    inner_first: bool
    shared: Shared
    outside: float | int = 0

    def fetch(self, turn: Value) -> None:
        """Elements of the terms from `turn` on; `outside` where there are none."""
        kernel, kind = self.kernel, self.problem.kind
        local = kernel.local()
        for piece in range(self.extent * self.depth // kernel.threads):
            number = local + piece * kernel.threads
            if self.inner_first:  # the inner index is the last axis
                place, term = number // self.depth, number % self.depth
            else:
                term, place = number // self.extent, number % self.extent
            row, inner = self.start + place, turn + term
            value = kernel.variable(kind)
            value.set(self.outside)
            with kernel.when((row < self.limit) & (inner < self.problem.k)):
                step = self.problem.k if self.inner_first else self.limit
                at = row * step + inner if self.inner_first else inner * step + row
                value.set(kernel.load(kind, self.tensor, self.base + at))
            self.shared.set(term * self.extent + place, value.get())


def tiled(
    problem: Problem, tiles: Tiles, *, block: int = MATMUL_BLOCK, ordered: bool = False
) -> Stage:
    """Any shape, any dtype, any layout.

    Args:
        block: the longest chain of additions.
        ordered: products are rounded, and sums are made term by term from -0 on, so that terms that
            are not there, which give -0, change nothing.
    """
    kernel = Kernel(3, tiles.threads, contract=not ordered, loose=not ordered)
    nothing = -0.0 if ordered else 0
    kind, m, n, k = problem.kind, problem.m, problem.n, problem.k
    shared = [kernel.shared(kind, tiles.depth * extent) for extent in (tiles.rows, tiles.columns)]
    group, local = kernel.flat_group(), kernel.local()
    across, down = -(-n // tiles.columns), -(-m // tiles.rows)
    with kernel.when(group < problem.groups(tiles)):
        batch, rest = group // (across * down), group % (across * down)
        row, column = (rest // across) * tiles.rows, (rest % across) * tiles.columns
        width = tiles.columns // tiles.own
        mine = (local // width) * tiles.own, (local % width) * tiles.own
        left = _Tile(
            *(kernel, problem, 0, batch * problem.left_step, row, tiles.rows, m, tiles.depth),
            not problem.across[0],
            shared[0],
            nothing,
        )
        right = _Tile(
            *(kernel, problem, 1, batch * (k * n), column, tiles.columns, n, tiles.depth),
            problem.across[1],
            shared[1],
        )
        own = range(tiles.own)
        totals = [[kernel.variable(kind, nothing) for _ in own] for _ in own]
        with kernel.loop(0, k, block) as first:
            parts = [[kernel.variable(kind) for _ in own] for _ in own]
            for part in (one for line in parts for one in line):
                part.set(nothing)
            stop = first + block
            stop = kernel.select(stop < k, stop, kernel.number("uint32", k))
            with kernel.loop(first, stop, tiles.depth) as turn:
                left.fetch(turn)
                right.fetch(turn)
                kernel.barrier()
                _multiply(tiles, (left, right), mine, parts)
                kernel.barrier()
            for line, sums in zip(totals, parts, strict=True):
                for total, part in zip(line, sums, strict=True):
                    total.set(total.get() + part.get())
        for i in own:
            for j in own:
                r, c = row + mine[0] + i, column + mine[1] + j
                with kernel.when((r < m) & (c < n)):
                    kernel.store(2, batch * (m * n) + r * n + c, totals[i][j].get())
    return stage(kernel, problem.groups(tiles))


def _multiply(
    tiles: Tiles,
    operands: tuple[_Tile, _Tile],
    mine: tuple[Value, Value],
    parts: list[list[Variable]],
) -> None:
    own = range(tiles.own)
    for term in range(tiles.depth):
        lefts = [operands[0].shared.get(mine[0] + (term * tiles.rows + i)) for i in own]
        rights = [operands[1].shared.get(mine[1] + (term * tiles.columns + j)) for j in own]
        for i in own:
            for j in own:
                parts[i][j].set(parts[i][j].get() + lefts[i] * rights[j])
