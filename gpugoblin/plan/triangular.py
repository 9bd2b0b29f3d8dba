"""Factorizations and solutions with triangles, by blocks of which nearly all are products.

Owns: the blocked algorithms of `cholesky` and `triangular_solve`. Must not: choose block sizes.

Right-looking (Golub and Van Loan, Matrix Computations, 4th edition, section 4.2.9): a diagonal
block is factored and the factor inverted in one small task, which the lab repeats; the blocks below
it are products with that inverse, and the rest is updated by products: both are checked by
projections. An update adds a product with a negated block, as the product check knows a carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.plan.grids import Grid
from gpugoblin.plan.listed import Draft, TaskWriter
from gpugoblin.plan.spans import Loop
from gpugoblin.plan.spec import OutputPlace, Region, TaskOutputRef

__all__ = ["Placed", "cholesky_blocks", "inner", "solve_blocks", "update"]

Placed = Callable[[tuple[int, int]], OutputPlace]
"""Where a block of the result goes."""


def inner(shape: Iterable[int]) -> OutputPlace:
    """A block that only later tasks read."""
    shape = tuple(shape)
    return OutputPlace(None, Region((0,) * len(shape), shape))


def cholesky_blocks(writer: TaskWriter, matrix: Grid, placed: Placed) -> Grid:
    """The blocks of L; those above the diagonal are zeros.

    Args:
        matrix: square, both axes cut alike; its symmetric part is meant.
        placed: for each block of the result.
    """
    loop = matrix.loops[0]
    rest = {place: _symmetric(writer, matrix, place) for place in matrix.places()
            if place[0] >= place[1]}  # fmt: skip
    lower: dict[tuple[int, int], TaskOutputRef] = {}
    for step in range(loop.count):
        lower[step, step], inverse = _factor(writer, matrix.spec, loop, step, rest)
        below = range(step + 1, loop.count)
        for row in below:
            lower[row, step] = _times(writer, matrix.spec, loop, (row, step), rest, inverse)
        negative = {row: _negative(writer, matrix.spec, loop, (row, step), lower) for row in below}
        for row in below:
            for column in range(step + 1, row + 1):
                rest[row, column] = update(
                    writer,
                    _Operand(lower[row, step], matrix.spec.dtype, _shape(loop, row, step)),
                    _Operand(negative[column], matrix.spec.dtype, _shape(loop, column, step)),
                    _Operand(rest[row, column], matrix.spec.dtype, _shape(loop, row, column)),
                    apart=row == column,
                )
    return _collected(writer, matrix.spec, loop, lower, placed)


@dataclass(frozen=True, slots=True)
class _Operand:
    """A block that a task reads whole."""

    ref: TaskOutputRef
    dtype: str
    shape: tuple[int, int]

    def read(self, draft: Draft) -> int:
        whole = tuple(Loop(extent, max(1, extent), extent) for extent in self.shape)
        grid = Grid(TensorSpec(self.dtype, self.shape), whole, parts={(0, 0): self.ref})
        return draft.block(grid, (0, 0))


def update(
    writer: TaskWriter, left: _Operand, right: _Operand, carry: _Operand, *, apart: bool
) -> TaskOutputRef:
    """left @ right^T + carry, as one product with its carry.

    Args:
        apart: the sum is made by a task of its own. The diagonal of a definite matrix is large
            beside all else: as a carry its rounding would come near to what the product check
            takes for wrong, and honest results would be made twice.
    """
    draft = Draft()
    made = draft.build.add("matmul", [left.read(draft), right.read(draft)], transpose_b=True)
    if apart:
        product = _Operand(writer.write(draft, [made], [inner(carry.shape)])[0], carry.dtype,
                           carry.shape)  # fmt: skip
        draft = Draft()
        made = product.read(draft)
    made = draft.build.add("formula", [made, carry.read(draft)], tree=call_formula("add"))
    return writer.write(draft, [made], [inner(carry.shape)])[0]


def _shape(loop: Loop, row: int, column: int) -> tuple[int, int]:
    sizes = [stop - start for start, stop in (loop.piece(row), loop.piece(column))]
    return sizes[0], sizes[1]


def _symmetric(writer: TaskWriter, matrix: Grid, place: tuple[int, ...]) -> TaskOutputRef:
    """(A + A^T) / 2 of one block."""
    row, column = place
    draft = Draft()
    one = draft.block(matrix, (row, column))
    other = draft.add("permute", draft.block(matrix, (column, row)), axes=(1, 0))
    total = draft.build.add("formula", [one, other], tree=call_formula("add"))
    half = draft.constant(np.full((1, 1), 0.5, DTYPES[matrix.spec.dtype]))
    made = draft.build.add("formula", [total, half], tree=call_formula("mul"))
    return writer.write(draft, [made], [inner(_shape(matrix.loops[0], row, column))])[0]


def _factor(
    writer: TaskWriter, spec: TensorSpec, loop: Loop, step: int,
    rest: dict[tuple[int, ...], TaskOutputRef],
) -> tuple[TaskOutputRef, TaskOutputRef]:  # fmt: skip
    """The factor of a diagonal block, and its inverse where there are blocks below."""
    draft, shape = Draft(), _shape(loop, step, step)
    made = [draft.add("cholesky", _Operand(rest[step, step], spec.dtype, shape).read(draft))]
    if step < loop.count - 1:
        one = identity(draft, shape[0], spec.dtype)
        made.append(draft.add("triangular_solve", made[0], one, lower=True))
    found = writer.write(draft, made, [inner(shape)] * len(made))
    return found[0], found[-1]


def identity(draft: Draft, extent: int, dtype: str) -> int:
    """A unit matrix that is made where it is needed."""
    line = draft.add("iota", count=extent)
    rows = draft.add("reshape", line, shape=(extent, 1))
    same = draft.build.add("formula", [rows, line], tree=call_formula("eq"))
    return draft.add("cast", same, dtype=dtype)


def _times(
    writer: TaskWriter, spec: TensorSpec, loop: Loop, place: tuple[int, int],
    rest: dict[tuple[int, ...], TaskOutputRef], inverse: TaskOutputRef,
) -> TaskOutputRef:  # fmt: skip
    """A block below the diagonal: what is left there times the inverse's transpose."""
    row, step = place
    draft = Draft()
    left = _Operand(rest[row, step], spec.dtype, _shape(loop, row, step)).read(draft)
    right = _Operand(inverse, spec.dtype, _shape(loop, step, step)).read(draft)
    made = draft.add("matmul", left, right, transpose_b=True)
    return writer.write(draft, [made], [inner(_shape(loop, row, step))])[0]


def _negative(
    writer: TaskWriter, spec: TensorSpec, loop: Loop, place: tuple[int, int],
    lower: dict[tuple[int, int], TaskOutputRef],
) -> TaskOutputRef:  # fmt: skip
    draft, shape = Draft(), _shape(loop, *place)
    value = _Operand(lower[place], spec.dtype, shape).read(draft)
    made = draft.build.add("formula", [value], tree=call_formula("neg"))
    return writer.write(draft, [made], [inner(shape)])[0]


def _collected(
    writer: TaskWriter, spec: TensorSpec, loop: Loop, lower: dict[tuple[int, int], TaskOutputRef],
    placed: Placed,
) -> Grid:  # fmt: skip
    """The blocks of the result. A matrix without a factor makes all of it NaN, and shows in the
    last block: 0 times its sum is added to each."""
    last = loop.count - 1
    draft, shape = Draft(), _shape(loop, last, last)
    corner = _Operand(lower[last, last], spec.dtype, shape).read(draft)
    total = draft.add("reduce", corner, function="sum", axes=(0, 1), keepdims=True)
    none = draft.constant(np.zeros((1, 1), DTYPES[spec.dtype]))
    made = draft.build.add("formula", [total, none], tree=call_formula("mul"))
    witness = writer.write(draft, [made], [inner((1, 1))])[0]
    parts: dict[tuple[int, ...], TaskOutputRef] = {}
    for row in range(loop.count):
        for column in range(loop.count):
            draft, shape = Draft(), _shape(loop, row, column)
            mark = _Operand(witness, spec.dtype, (1, 1)).read(draft)
            if column > row:
                made = draft.add("broadcast", mark, shape=shape)
            else:
                value = _Operand(lower[row, column], spec.dtype, shape).read(draft)
                made = draft.build.add("formula", [value, mark], tree=call_formula("add"))
            place = placed((row, column))
            parts[row, column] = writer.write(draft, [made], [place])[0]
    return Grid(spec, (loop, loop), parts=parts)


def solve_blocks(
    writer: TaskWriter, triangle: Grid, right: Grid, *, lower: bool, transpose: bool,
    unit_diagonal: bool, placed: Placed,
) -> Grid:  # fmt: skip
    """The blocks of X with T X = B (or T^T X = B), by substitution.

    Args:
        triangle: square, cut as the rows of `right` are.
    """
    rows, columns = right.loops
    forward = lower != transpose
    order = list(range(rows.count)) if forward else list(range(rows.count - 1, -1, -1))
    spec = right.spec
    inverses = {row: _inverted(writer, triangle, row, lower, unit_diagonal) for row in order}
    parts: dict[tuple[int, ...], TaskOutputRef] = {}
    for column in range(columns.count):
        negative: dict[int, TaskOutputRef] = {}
        for done, row in enumerate(order):
            box = right.box((row, column))
            shape = (box[0][1] - box[0][0], box[1][1] - box[1][0])
            rest: TaskOutputRef | None = None
            for before in order[:done]:
                rest = _subtract(
                    writer, triangle, right, (row, before, column), negative[before], rest,
                    transpose,
                )  # fmt: skip
            draft = Draft()
            size = (shape[0], shape[0])
            factor = _Operand(inverses[row], spec.dtype, size).read(draft)
            value = (
                draft.block(right, (row, column))
                if rest is None
                else _Operand(rest, spec.dtype, shape).read(draft)
            )
            made = draft.add("matmul", factor, value, transpose_a=transpose)
            last = done == len(order) - 1
            place = placed((row, column))
            if last or place.array is None:
                found = writer.write(draft, [made], [place])[0]
            else:
                found = writer.write(draft, [made], [inner(shape)])[0]
            if not last:
                negative[row] = _turned(writer, spec.dtype, shape, found, place)
            parts[row, column] = found
    return Grid(spec, (rows, columns), parts=parts)


def _inverted(
    writer: TaskWriter, triangle: Grid, row: int, lower: bool, unit_diagonal: bool
) -> TaskOutputRef:
    draft = Draft()
    extent = _shape(triangle.loops[0], row, row)[0]
    block = draft.block(triangle, (row, row))
    made = draft.add(
        "triangular_solve", block, identity(draft, extent, triangle.spec.dtype),
        lower=lower, unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return writer.write(draft, [made], [inner((extent, extent))])[0]


def _subtract(
    writer: TaskWriter, triangle: Grid, right: Grid, at: tuple[int, int, int],
    negative: TaskOutputRef, rest: TaskOutputRef | None, transpose: bool,
) -> TaskOutputRef:  # fmt: skip
    """What is left of a block of B after one block of X: a product with a carry."""
    row, before, column = at
    draft = Draft()
    left = draft.block(triangle, (before, row) if transpose else (row, before))
    box = right.box((before, column))
    known = _Operand(negative, right.spec.dtype, (box[0][1] - box[0][0], box[1][1] - box[1][0]))
    made = draft.add("matmul", left, known.read(draft), transpose_a=transpose)
    own = right.box((row, column))
    shape = (own[0][1] - own[0][0], own[1][1] - own[1][0])
    carry = (
        draft.block(right, (row, column))
        if rest is None
        else _Operand(rest, right.spec.dtype, shape).read(draft)
    )
    made = draft.build.add("formula", [made, carry], tree=call_formula("add"))
    return writer.write(draft, [made], [inner(shape)])[0]


def _turned(
    writer: TaskWriter, dtype: str, shape: tuple[int, int], ref: TaskOutputRef, place: OutputPlace
) -> TaskOutputRef:
    """The negative of a block; the block itself goes to its place in the same task."""
    draft = Draft()
    value = _Operand(ref, dtype, shape).read(draft)
    made = [draft.build.add("formula", [value], tree=call_formula("neg"))]
    places = [inner(shape)]
    if place.array is not None:
        made.append(value)
        places.append(place)
    return writer.write(draft, made, places)[0]
