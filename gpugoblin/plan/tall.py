"""Q R of a tall matrix by a tree over blocks of rows.

Owns: that algorithm (J. Demmel, L. Grigori, M. Hoemmen, J. Langou, Communication-optimal parallel
and sequential QR and LU factorizations, 2012). Must not: choose block sizes.

Each block of rows is factored by itself, the triangles of several are stacked and factored again,
up to one. As the catalog's factor has nothing negative on the diagonal, the last triangle is that
of the whole matrix. Q is made on the way back, by products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.plan.grids import Grid
from gpugoblin.plan.listed import Draft, TaskWriter
from gpugoblin.plan.spans import Loop
from gpugoblin.plan.spec import OutputPlace, Region, TaskOutputRef

__all__ = ["FAN", "tall_qr"]

FAN: Final = 8
"""Triangles that are stacked at once, where they fit."""


@dataclass(slots=True)
class _Node:
    """A factored stack: Q (where wanted) and R, and the nodes whose triangles it is made of."""

    rows: int
    parts: tuple[_Node, ...]
    q: TaskOutputRef | None = None
    r: TaskOutputRef | None = None


def tall_qr(
    writer: TaskWriter,
    matrix: Grid,
    *,
    fan: int = FAN,
    q_placed: Callable[[tuple[int, int]], OutputPlace] | None,
    r_place: OutputPlace | None,
) -> tuple[Grid | None, Grid | None]:
    """The grids of Q and R; of what is not wanted (None) there is none.

    Args:
        fan: triangles that are stacked at once.
        matrix: cut along its rows alone, in blocks of at least as many rows as columns.
    """
    columns = matrix.spec.shape[1]
    dtype = matrix.spec.dtype
    loop = matrix.loops[0]
    leaves: list[_Node] = []
    level = leaves
    for row in range(loop.count):
        start, stop = loop.piece(row)
        draft = Draft()
        value = draft.block(matrix, (row, 0))
        alone = loop.count == 1
        made = _factor(
            writer, draft, value, stop - start, (),
            q=q_placed((row, 0)) if q_placed and alone else _inner(stop - start, columns)
            if q_placed else None,
            r=(r_place if alone else _inner(columns, columns)),
        )  # fmt: skip
        leaves.append(made)
    while len(level) > 1:
        groups = [level[at : at + fan] for at in range(0, len(level), fan)]
        top = len(groups) == 1
        level = [_stack(writer, dtype, columns, group, q_placed is not None, top, r_place)
                 for group in groups]  # fmt: skip
    root = level[0]
    q_grid = r_grid = None
    if r_place is not None and root.r is not None:
        whole = Loop(columns, columns, columns)
        r_grid = Grid(TensorSpec(dtype, (columns, columns)), (whole, whole), parts={(0, 0): root.r})
    if q_placed is not None:
        parts: dict[tuple[int, ...], TaskOutputRef] = {}
        if root.parts:
            shares = _shares(writer, dtype, columns, root)
            for row, leaf in enumerate(leaves):
                draft = Draft()
                left = _read(draft, dtype, (leaf.rows, columns), leaf.q)
                right = _read(draft, dtype, (columns, columns), shares[id(leaf)])
                made_q = draft.add("matmul", left, right)
                parts[row, 0] = writer.write(draft, [made_q], [q_placed((row, 0))])[0]
        elif root.q is not None:
            parts[0, 0] = root.q
        q_grid = Grid(matrix.spec, matrix.loops, parts=parts)
    return q_grid, r_grid


def _inner(rows: int, columns: int) -> OutputPlace:
    return OutputPlace(None, Region((0, 0), (rows, columns)))


def _factor(
    writer: TaskWriter, draft: Draft, value: int, rows: int, parts: Sequence[_Node],
    *, q: OutputPlace | None, r: OutputPlace | None,
) -> _Node:  # fmt: skip
    """One task: the factors of a value, those of them that are wanted."""
    both = draft.build.add_many("qr", [value])
    values, places = [], []
    if q is not None:
        values.append(both[0])
        places.append(q)
    if r is not None:
        values.append(both[1])
        places.append(r)
    refs = writer.write(draft, values, places)
    return _Node(
        rows,
        tuple(parts),
        refs[0] if q is not None else None,
        refs[-1] if r is not None else None,
    )


def _stack(
    writer: TaskWriter, dtype: str, columns: int, group: Sequence[_Node], q: bool, top: bool,
    r_place: OutputPlace | None,
) -> _Node:  # fmt: skip
    if len(group) == 1:
        return group[0]
    draft = Draft()
    square = (columns, columns)
    values = [_read(draft, dtype, square, one.r) for one in group]
    rows = columns * len(group)
    stacked = draft.build.add("concat", values, axis=0)
    return _factor(
        writer, draft, stacked, rows, group,
        q=_inner(rows, columns) if q else None,
        r=r_place if top else _inner(*square),
    )  # fmt: skip


def _shares(writer: TaskWriter, dtype: str, columns: int, root: _Node) -> dict[int, TaskOutputRef]:
    """For each leaf the square matrix that its own Q is to be multiplied by."""
    found: dict[int, TaskOutputRef] = {}
    waiting: list[tuple[_Node, TaskOutputRef | None]] = [(root, None)]
    square = (columns, columns)
    while waiting:
        node, share = waiting.pop()
        for number, part in enumerate(node.parts):
            draft = Draft()
            whole = _read(draft, dtype, (node.rows, columns), node.q)
            start = (number * columns, 0)
            stop = ((number + 1) * columns, columns)
            value = draft.add("slice", whole, start=start, stop=stop, step=(1, 1))
            if share is not None:
                value = draft.add("matmul", value, _read(draft, dtype, square, share))
            made = writer.write(draft, [value], [_inner(*square)])[0]
            if part.parts:
                waiting.append((part, made))
            else:
                found[id(part)] = made
    return found


def _read(draft: Draft, dtype: str, shape: tuple[int, int], ref: TaskOutputRef | None) -> int:
    if ref is None:
        raise LookupError("a factor that was not kept is read")
    whole = tuple(Loop(extent, max(1, extent), extent) for extent in shape)
    return draft.block(Grid(TensorSpec(dtype, shape), whole, parts={(0, 0): ref}), (0, 0))
