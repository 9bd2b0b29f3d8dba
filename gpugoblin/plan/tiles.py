"""Products of matrices larger than any memory, as tasks of one tile each.

Owns: the choice of the tile and the order of the tasks. Must not: touch data.

A tile is 1024 rows, the whole inner axis and 4096 columns. The outer loop runs over panels of the
right operand, so that one panel stays in its slot while all rows pass by. Above an inner length of
16384 the inner axis is cut, too, and each step adds to the tile of the step before: the carry is an
input of the next task, never a sum that is made elsewhere. Tiles shrink where an engine is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.spec import (
    ArrayRegion,
    Limits,
    OutputPlace,
    PlannedTask,
    PlanSummary,
    Region,
    TaskOutputRef,
    VerifyMethod,
)
from gpugoblin.units import MIB
from gpugoblin.verify.forms import ProductForm, product_form
from gpugoblin.verify.projection import vector_count

__all__ = ["TILE_COLUMNS", "TILE_INNER", "TILE_ROWS", "ProductPlan", "plan_product"]

TILE_ROWS: Final = 1024
TILE_COLUMNS: Final = 4096
TILE_INNER: Final = 16384
_BATCH_BYTES: Final = 16 * MIB


@dataclass(frozen=True, slots=True)
class _Tile:
    """Extents of one task: batch axes, rows, inner, columns."""

    batch: tuple[int, ...]
    rows: int
    inner: int
    columns: int


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis cut into equal pieces (the last may be shorter); an empty axis is one piece."""

    extent: int
    step: int

    @property
    def count(self) -> int:
        return max(1, -(-self.extent // self.step)) if self.step else 1

    def piece(self, number: int) -> tuple[int, int]:
        start = number * self.step
        return start, min(self.extent, start + self.step)


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """A product plan. Task numbers count, from the slowest: batch, panel, inner step, rows."""

    graph: Graph
    form: ProductForm
    tile: _Tile
    batch_axes: tuple[_Axis, ...] = field(repr=False)
    rows: _Axis = field(repr=False)
    inner: _Axis = field(repr=False)
    columns: _Axis = field(repr=False)

    @property
    def count(self) -> int:
        batches = math.prod(axis.count for axis in self.batch_axes)
        return batches * self.columns.count * self.inner.count * self.rows.count

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self.graph.output_specs()

    def task(self, index: int) -> PlannedTask:
        """Task `index`. Raises PlanError `plan_task_unknown`."""
        batch, panel, step, row = self._place(index)
        boxes = [axis.piece(at) for axis, at in zip(self.batch_axes, batch, strict=True)]
        rows, inner, columns = (
            self.rows.piece(row),
            self.inner.piece(step),
            self.columns.piece(panel),
        )
        form = self.form
        left_box = (inner, rows) if form.transpose_left else (rows, inner)
        right_box = (columns, inner) if form.transpose_right else (inner, columns)
        output = _region([*boxes, rows, columns])
        carry: ArrayRegion | TaskOutputRef | None = None
        depends: tuple[int, ...] = ()
        if step > 0:
            before = index - self.rows.count
            carry, depends = TaskOutputRef(before, 0), (before,)
        elif form.carry is not None:
            carry = ArrayRegion(form.carry, output)
        shape = _shape(
            form.dtype,
            tuple(stop - start for start, stop in boxes),
            (rows[1] - rows[0], inner[1] - inner[0], columns[1] - columns[0]),
            (form.transpose_left, form.transpose_right),
            carry is not None,
        )
        left = ArrayRegion(form.left, _region([*boxes, *left_box]))
        right = ArrayRegion(form.right, _region([*boxes, *right_box]))
        verify, verify_flops = _verification(shape.form, self.rows.count)
        last = step == self.inner.count - 1
        return PlannedTask(
            index=index,
            graph=shape.graph,
            inputs=(left, right) if carry is None else (left, right, carry),
            outputs=(OutputPlace(0 if last else None, output),),
            verify=verify,
            verify_flops=verify_flops,
            flops=shape.form.flops,
            bytes_moved=shape.bytes_moved,
            memory_bound_bytes=shape.bound_bytes,
            affinity=index // self.rows.count,
            depends_on=depends,
        )

    def consumers(self, index: int) -> tuple[int, ...]:
        _, _, step, _ = self._place(index)
        return (index + self.rows.count,) if step < self.inner.count - 1 else ()

    def summary(self) -> PlanSummary:
        first = self.task(0)
        form, count = self.form, self.count
        item = DTYPES[form.dtype].itemsize
        row_passes, panels = self.rows.count, self.columns.count
        batch = form.batch_count
        left = batch * form.rows * form.inner * item
        right = batch * form.inner * form.columns * item
        output = batch * form.rows * form.columns * item
        carries = (self.inner.count - 1) * output
        # On one machine a panel is sent once; toward contributors it goes to each of them.
        bytes_in = left * panels + right + carries + (output if form.carry is not None else 0)
        return PlanSummary(
            kind="product",
            tasks=count,
            flops=form.flops,
            verify_flops=first.verify_flops * count,
            bytes_in=bytes_in,
            bytes_out=output + carries,
            memory_bound_bytes=max(
                first.memory_bound_bytes,
                self.task(min(count - 1, row_passes)).memory_bound_bytes,
            ),
            tile=(*self.tile.batch, self.tile.rows, self.tile.columns),
        )

    def _place(self, index: int) -> tuple[tuple[int, ...], int, int, int]:
        if not 0 <= index < self.count:
            raise PlanError("plan_task_unknown", index=index, count=self.count)
        rest, row = divmod(index, self.rows.count)
        rest, step = divmod(rest, self.inner.count)
        rest, panel = divmod(rest, self.columns.count)
        batch: list[int] = []
        for axis in reversed(self.batch_axes):
            rest, at = divmod(rest, axis.count)
            batch.append(at)
        return tuple(reversed(batch)), panel, step, row


def plan_product(graph: Graph, limits: Limits) -> ProductPlan:
    """The plan of a product over whole arrays.

    Raises:
        PlanError: `plan_not_a_product`; `plan_does_not_fit` when not even one element fits.
    """
    form = product_form(graph)
    if form is None:
        raise PlanError("plan_not_a_product")
    tile = _even(form, _fit(form, _first_tile(form), limits))
    batch = tuple(_Axis(*pair) for pair in zip(form.batch, tile.batch, strict=True))
    return ProductPlan(
        graph=graph,
        form=form,
        tile=tile,
        batch_axes=batch,
        rows=_Axis(form.rows, tile.rows),
        inner=_Axis(form.inner, tile.inner),
        columns=_Axis(form.columns, tile.columns),
    )


def _first_tile(form: ProductForm) -> _Tile:
    inner = min(form.inner, TILE_INNER)
    columns = min(form.columns, TILE_COLUMNS)
    # A narrow result takes more rows at a time, as long as the left tile is no larger.
    most = max(TILE_ROWS, TILE_ROWS * TILE_INNER // max(1, inner))
    rows = min(form.rows, most, TILE_ROWS * TILE_COLUMNS // max(1, columns))
    item = DTYPES[form.dtype].itemsize
    whole = inner == form.inner and columns == form.columns and rows == form.rows
    largest = max(rows * inner, inner * columns, rows * columns, 1) * item
    budget = max(1, _BATCH_BYTES // largest) if whole else 1
    batch: list[int] = []
    for extent in reversed(form.batch):
        taken = max(1, min(extent, budget))
        budget = budget // taken if taken == extent else 1
        batch.append(taken)
    return _Tile(tuple(reversed(batch)), rows, inner, columns)


def _fit(form: ProductForm, tile: _Tile, limits: Limits) -> _Tile:
    """Halves what makes the largest tensor large until the task fits."""
    item = DTYPES[form.dtype].itemsize
    while True:
        batch = math.prod(tile.batch)
        left, right, output = (
            batch * tile.rows * tile.inner * item,
            batch * tile.inner * tile.columns * item,
            batch * tile.rows * tile.columns * item,
        )
        carried = form.carry is not None or tile.inner < form.inner
        needed = left + right + output * (3 if carried else 1)
        fits = max(left, right, output) <= limits.slot_bytes and needed <= limits.memory_bytes
        if fits:
            needed = _shape(
                form.dtype,
                tile.batch,
                (tile.rows, tile.inner, tile.columns),
                (form.transpose_left, form.transpose_right),
                carried,
            ).bound_bytes
            if needed <= limits.memory_bytes:
                return tile
        smaller = _shrink(tile, left, right, output)
        if smaller is None:
            raise PlanError(
                "plan_does_not_fit",
                operator="matmul",
                output=str(TensorSpec(form.dtype, (*form.batch, form.rows, form.columns))),
                needed_bytes=needed,
                limit_bytes=min(limits.memory_bytes, limits.slot_bytes),
            )
        tile = smaller


def _shrink(tile: _Tile, left: int, right: int, output: int) -> _Tile | None:
    if math.prod(tile.batch) > 1:
        at = next(at for at, extent in enumerate(tile.batch) if extent > 1)
        halved = (*tile.batch[:at], -(-tile.batch[at] // 2), *tile.batch[at + 1 :])
        return _Tile(halved, tile.rows, tile.inner, tile.columns)
    largest = max(left, right, output)
    rows, inner, columns = tile.rows, tile.inner, tile.columns
    pairs = {left: (rows, inner), right: (inner, columns), output: (rows, columns)}
    longest = max(pairs[largest])
    if longest <= 1:
        return None
    half = -(-longest // 2)
    # Cutting the inner axis costs a pass over the result, so the outer axes go first.
    if columns == longest and largest != left:
        return _Tile(tile.batch, rows, inner, half)
    if rows == longest and largest != right:
        return _Tile(tile.batch, half, inner, columns)
    return _Tile(tile.batch, rows, half, columns)


def _even(form: ProductForm, tile: _Tile) -> _Tile:
    """The same number of pieces, but of nearly equal size."""
    batch = tuple(_level(extent, step) for extent, step in zip(form.batch, tile.batch, strict=True))
    return _Tile(
        batch,
        _level(form.rows, tile.rows, 64),
        _level(form.inner, tile.inner, 256),
        _level(form.columns, tile.columns, 128),
    )


def _level(extent: int, step: int, grain: int = 1) -> int:
    if step >= extent or step == 0:
        return step
    pieces = -(-extent // step)
    level = -(-extent // pieces)
    return min(step, -(-level // grain) * grain)


def _region(box: list[tuple[int, int]]) -> Region:
    return Region(tuple(start for start, _ in box), tuple(stop for _, stop in box))


def _verification(form: ProductForm, shared_by: int) -> tuple[VerifyMethod, int]:
    """Method and flops of the check; the projection of a panel is shared by its tasks."""
    vectors = vector_count(form.columns, form.dtype)
    panel = form.inner * form.columns // max(1, shared_by)
    per_vector = form.rows * form.inner + form.rows * form.columns + panel
    flops = 2 * form.batch_count * vectors * per_vector
    return ("product", flops) if flops < form.flops else ("recompute", form.flops)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A task's graph and what follows from it: many tasks have few shapes."""

    graph: Graph
    form: ProductForm
    bytes_moved: int
    bound_bytes: int


@lru_cache(maxsize=64)
def _shape(
    dtype: str,
    batch: tuple[int, ...],
    extents: tuple[int, int, int],
    transposed: tuple[bool, bool],
    carried: bool,
) -> _Shape:
    rows, inner, columns = extents
    left = (inner, rows) if transposed[0] else (rows, inner)
    right = (columns, inner) if transposed[1] else (inner, columns)
    build = GraphBuilder()
    a = build.input(TensorSpec(dtype, (*batch, *left)))
    b = build.input(TensorSpec(dtype, (*batch, *right)))
    carry = build.input(TensorSpec(dtype, (*batch, rows, columns))) if carried else None
    product = build.add("matmul", [a, b], transpose_a=transposed[0], transpose_b=transposed[1])
    if carry is not None:
        product = build.add("formula", [product, carry], tree=call_formula("add"))
    graph = build.build([product])
    form = product_form(graph)
    if form is None:
        raise PlanError("plan_not_a_product")
    moved = sum(spec.nbytes for spec in (*graph.inputs, *graph.output_specs()))
    return _Shape(graph, form, moved, bound(graph))
