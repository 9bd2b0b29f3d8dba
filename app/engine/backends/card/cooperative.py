"""Products of 16-bit operands by the matrix units of a card, with sums of float32.

Owns: the kernel. Each subgroup makes a part of a group's tile out of matrices that its threads hold
together. Tiles of the operands lie in shared memory as they lie in the tensor, in vectors of 16
bytes; rows there are one vector longer than the tile, so that reads meet different banks. While one
tile is multiplied the next is on its way to registers. Rows and columns beyond the result are read
from its edge and not stored; terms beyond the last are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from app.engine.backends.card.fragments import VECTOR, Blocking, Fragment, tile_vectors
from app.engine.backends.card.matrices import (
    LEFT,
    RIGHT,
    SUMS,
    Held,
    Matrix,
    MatrixKernel,
    Vectors,
)
from app.engine.backends.card.product import Problem
from app.engine.backends.card.stages import Stage, stage
from app.engine.backends.card.streaming import tile_of
from app.engine.backends.card.values import Value

__all__ = ["cooperated"]

_ALIGNED_BYTES: Final = 16


@dataclass(slots=True)
class _Operand:
    """One operand on its way to the matrices of a subgroup: `batch` elements from the tensor's
    beginning, rows (or columns) of the result from `start` on."""

    kernel: MatrixKernel
    tensor: int
    limit: int
    k: int
    inner_first: bool
    extent: int
    depth: int
    batch: Value
    start: Value
    length: int = field(init=False)
    """Vectors of a row of the tile."""
    stride: int = field(init=False)
    shared: Vectors = field(init=False)
    own: list[tuple[Value, Value]] = field(init=False)
    addresses: list[Value] = field(init=False)

    def __post_init__(self) -> None:
        self.length = (self.depth if self.inner_first else self.extent) // VECTOR
        self.stride = self.length + 1
        size = tile_vectors(self.extent, self.depth, inner_first=self.inner_first)
        self.shared = Vectors(self.kernel, "uint32x4", size)
        self.own = self._own()
        steps = self._step() is not None
        self.addresses = [self._address(*place) for place in (self.own[:1] if steps else self.own)]

    def _own(self) -> list[tuple[Value, Value]]:
        """Place in the tile and term of each vector that this thread brings."""
        local, threads = self.kernel.local(), self.kernel.threads
        found = []
        for piece in range(self.extent * self.depth // VECTOR // threads):
            number = local + piece * threads
            along, across = number % self.length * VECTOR, number // self.length
            found.append((across, along) if self.inner_first else (along, across))
        return found

    def _step(self) -> int | None:
        """Bytes from each vector of a thread to its next, where no row is clamped: constants in the
        addresses, of which there is one in a register then."""
        rows, rest = divmod(self.kernel.threads, self.length)
        if self.limit % self.extent or rest:
            return None
        return 2 * rows * (self.k if self.inner_first else self.limit)

    def _address(self, place: Value, term: Value) -> Value:
        """Of a vector in the first turn."""
        row = self.start + place
        if self.limit % self.extent:
            last = self.limit - (1 if self.inner_first else VECTOR)
            row = self.kernel.select(row < last, row, self.kernel.number("uint32", last))
        at = row * self.k + term if self.inner_first else term * self.limit + row
        return self.kernel.place(self.tensor, self.batch + at, 2)

    def fetch(self, turn: Value) -> list[Value]:
        """This thread's vectors of the terms from `turn` on."""
        along = 2 * (1 if self.inner_first else self.limit)
        offset = self.kernel.make("UConvert", "uint64", turn) * along
        step = self._step()
        if step is None:
            addresses = [address + offset for address in self.addresses]
        else:
            first = self.addresses[0] + offset
            addresses = [first + piece * step for piece in range(len(self.own))]
        return [
            self._vector(address, turn + term)
            for (_, term), address in zip(self.own, addresses, strict=True)
        ]

    def _vector(self, address: Value, term: Value) -> Value:
        kernel = self.kernel
        if self.k % self.depth == 0:
            return kernel.load_at("uint32x4", address)
        value = kernel.variable("uint32x4", kernel.join([kernel.number("uint32", 0)] * 4))
        with kernel.when(term < self.k):
            value.set(kernel.load_at("uint32x4", address))
        return value.get()

    def put(self, vectors: list[Value]) -> None:
        """Into the tile in shared memory."""
        for (place, term), vector in zip(self.own, vectors, strict=True):
            row, along = (place, term) if self.inner_first else (term, place)
            self.shared.set(row * self.stride + along // VECTOR, vector)

    def matrix(self, kind: Matrix, place: Value, term: int) -> int:
        """The matrix from a place of the tile and a term on."""
        if self.inner_first:
            index = place * self.stride + term // VECTOR
        else:
            index = place // VECTOR + term * self.stride
        turned = self.inner_first == (kind.use == RIGHT)
        return self.kernel.load_matrix(kind, self.shared, index, self.stride, turned=turned)


@dataclass(slots=True)
class _Part:
    """What a subgroup makes: matrices of sums from a row and column of the tile on."""

    fragment: Fragment
    form: str
    row: Value
    column: Value
    sums: list[list[Held]]

    def multiply(self, kernel: MatrixKernel, operands: tuple[_Operand, _Operand]) -> None:
        """Adds the products of one turn."""
        shape = self.fragment
        left = Matrix(self.form, shape.rows, shape.terms, LEFT)
        right = Matrix(self.form, shape.terms, shape.columns, RIGHT)
        rows = [self.row + i * shape.rows for i in range(len(self.sums))]
        columns = [self.column + j * shape.columns for j in range(len(self.sums[0]))]
        for term in range(0, operands[0].depth, shape.terms):
            lefts = [operands[0].matrix(left, row, term) for row in rows]
            rights = [operands[1].matrix(right, column, term) for column in columns]
            for line, one in zip(self.sums, lefts, strict=True):
                for total, other in zip(line, rights, strict=True):
                    total.set(kernel.multiply_add(one, other, total.get(), total.matrix))


def cooperated(
    problem: Problem, form: str, blocking: Blocking, fragment: Fragment, subgroup: int
) -> Stage:
    """The dispatch of a product of operands in `form` that these sizes fit (`fragments.fits`)."""
    kernel = MatrixKernel(3, blocking.threads(subgroup))
    m, n, k, depth = problem.m, problem.n, problem.k, blocking.depth
    across, down = -(-n // blocking.columns), -(-m // blocking.rows)
    groups = problem.batch * across * down
    group = kernel.flat_group()
    with kernel.when(group < groups):
        batch = group // (across * down)
        down_first, right_first = tile_of(kernel, group % (across * down), across, down)
        row, column = down_first * blocking.rows, right_first * blocking.columns
        operands = (
            _Operand(
                *(kernel, 0, m, k, not problem.across[0], blocking.rows, depth),
                *(batch * problem.left_step, row),
            ),
            _Operand(
                *(kernel, 1, n, k, problem.across[1], blocking.columns, depth),
                *(batch * (k * n), column),
            ),
        )
        part = _part(kernel, form, blocking, fragment)
        _turns(kernel, operands, part)
        _store(kernel, problem, part, (row, column, batch), subgroup)
    return stage(kernel, groups)


def _part(kernel: MatrixKernel, form: str, blocking: Blocking, fragment: Fragment) -> _Part:
    rows, columns = blocking.own
    number = kernel.subgroup()
    kind = Matrix("float32", fragment.rows, fragment.columns, SUMS)
    sums = [
        [kernel.held(kind) for _ in range(columns // fragment.columns)]
        for _ in range(rows // fragment.rows)
    ]
    for one in (one for line in sums for one in line):
        one.set(kernel.zeros(kind))
    return _Part(
        *(fragment, form, number // blocking.subgroups[1] * rows),
        *(number % blocking.subgroups[1] * columns, sums),
    )


def _turns(kernel: MatrixKernel, operands: tuple[_Operand, _Operand], part: _Part) -> None:
    """The sums of all terms."""
    k, depth = operands[0].k, operands[0].depth
    for operand in operands:
        operand.put(operand.fetch(kernel.number("uint32", 0)))
    kernel.barrier()
    stop = -(-k // depth) * depth
    with kernel.loop(0, stop, depth) as turn:
        after = turn + depth
        after = kernel.select(after < stop, after, turn)
        coming = [operand.fetch(after) for operand in operands]
        part.multiply(kernel, operands)
        kernel.barrier()
        for operand, vectors in zip(operands, coming, strict=True):
            operand.put(vectors)
        kernel.barrier()


def _store(
    kernel: MatrixKernel,
    problem: Problem,
    part: _Part,
    corner: tuple[Value, Value, Value],
    subgroup: int,
) -> None:
    """All matrices of sums that lie in the result."""
    m, n, shape = problem.m, problem.n, part.fragment
    edge = None
    if m % shape.rows or n % shape.columns:
        edge = _Edge(kernel, problem, shape, subgroup)
    for i, line in enumerate(part.sums):
        for j, total in enumerate(line):
            row = corner[0] + part.row + i * shape.rows
            column = corner[1] + part.column + j * shape.columns
            with kernel.when((row < m) & (column < n)):
                if edge is not None:
                    edge.store(total.get(), row, column, corner[2])
                    continue
                address = kernel.place(2, corner[2] * (m * n) + row * n + column, 4)
                kernel.store_matrix(total.get(), address, n, _ALIGNED_BYTES)


class _Edge:
    """Stores matrices that may reach beyond the result, element by element, through shared memory
    in which each subgroup lays out one."""

    def __init__(
        self, kernel: MatrixKernel, problem: Problem, shape: Fragment, subgroup: int
    ) -> None:
        self._kernel, self._problem, self._shape = kernel, problem, shape
        self._subgroup = subgroup
        self._size = shape.rows * shape.columns
        self._shared = Vectors(kernel, "float32", self._size * (kernel.threads // subgroup))

    def store(self, matrix: int, row: Value, column: Value, batch: Value) -> None:
        kernel, m, n = self._kernel, self._problem.m, self._problem.n
        mine = kernel.subgroup() * self._size
        kernel.share_matrix(matrix, self._shared, mine, self._shape.columns)
        kernel.meet()
        for piece in range(self._size // self._subgroup):
            number = kernel.local() % self._subgroup + piece * self._subgroup
            r, c = row + number // self._shape.columns, column + number % self._shape.columns
            with kernel.when((r < m) & (c < n)):
                value = self._shared.get(mine + number)
                kernel.store(2, batch * (m * n) + r * n + c, value)
        kernel.meet()
