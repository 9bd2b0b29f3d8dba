"""Reductions on the processor, in an order that is fixed by shapes alone.

Owns: the order of a reduction. Must not: let a chain of additions grow: the catalog's tolerance
counts on nested blocks of 512 terms (`gpugoblin.catalog.rounding.chain`).

A result is made in boxes of outputs and, where there are few outputs, in segments of what is
summed. Within those, NumPy reduces pieces of at most 512 terms a chain (or of any length along the
innermost axis, where it adds pairwise), their results are added up in runs of 512, and those again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.engine.backends.cpu.blocks import Box, cut
from app.engine.context import Context
from gpugoblin.catalog.rules import bool_attribute, int_attribute, ints_attribute, text_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["reduce", "reduce_arg"]

OUTPUT_BOX: Final = 16 * 1024
PIECE_ELEMENTS: Final = 128 * 1024
CHAIN: Final = 512
FEW_BOXES: Final = 16
MAX_SEGMENTS: Final = 64
SEGMENT_ELEMENTS: Final = 256 * 1024
ARG_ELEMENTS: Final = 256 * 1024

_FUNCTIONS: Final = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}


def reduce(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """sum, mean, prod, max, min, any, all over axes."""
    function = text_attribute(attributes, "function")
    axes = ints_attribute(attributes, "axes")
    source = reads[0]
    kept = tuple(axis for axis in range(source.ndim) if axis not in axes)
    out = writes[0].reshape(tuple(source.shape[axis] for axis in kept))
    ufunc = _FUNCTIONS[function]
    count = math.prod(source.shape[axis] for axis in axes)
    if out.size and count:
        _Reduction(ufunc, source.transpose(kept + axes), out, len(axes), context).start()
    elif out.size:
        out[...] = ufunc.identity
    if function == "mean":
        np.divide(out, out.dtype.type(count), out=out)


class _Reduction:
    """`source` has the kept axes first, the reduced ones last; both have elements."""

    def __init__(
        self, ufunc: np.ufunc, source: Array, out: Array, reduced: int, context: Context
    ) -> None:
        self._ufunc = ufunc
        self._out = out
        self._context = context
        kept = source.ndim - reduced
        self._source, self._reduced = _merged(source, kept)
        self._axes = tuple(range(kept, kept + self._reduced))
        inner = self._source.shape[-1] if self._reduced and self._pairwise() else 1
        self._boxes = cut(out.shape, max(1, min(OUTPUT_BOX, PIECE_ELEMENTS // inner)))
        box_elements = self._target(0).size
        self._pieces = self._cut_pieces(box_elements)
        total = box_elements * math.prod(self._source.shape[kept:])
        segments = min(MAX_SEGMENTS, len(self._pieces), -(-total // SEGMENT_ELEMENTS))
        self._segments = segments if len(self._boxes) < FEW_BOXES else 1

    def _pairwise(self) -> bool:
        """Will NumPy's innermost loop run along the last reduced axis? Then it adds pairwise."""
        strides = [abs(step) for step in self._source.strides if step]
        return not strides or abs(self._source.strides[-1]) == min(strides)

    def _cut_pieces(self, box_elements: int) -> list[Box]:
        """Boxes of the reduced axes: no longer than a chain may be, no larger than the cache."""
        shape = self._source.shape[self._source.ndim - self._reduced :]
        if not shape:
            return [(...,)]
        if not self._pairwise():
            return cut(shape, CHAIN)
        chain = CHAIN // 2 * shape[-1]
        return cut(shape, max(1, min(PIECE_ELEMENTS // box_elements, chain)))

    def start(self) -> None:
        count = self._segments
        if count == 1:
            self._context.blocks(
                len(self._boxes), lambda box: self._fold(box, 0, self._target(box))
            )
            return
        partial = [
            np.empty((count, *self._target(box).shape), self._out.dtype)
            for box in range(len(self._boxes))
        ]

        def block(number: int) -> None:
            box, segment = divmod(number, count)
            self._fold(box, segment, partial[box][segment, ...])

        self._context.blocks(len(self._boxes) * count, block)
        for box, parts in enumerate(partial):
            self._ufunc.reduce(parts, axis=0, out=self._target(box), dtype=self._out.dtype)

    def _target(self, box: int) -> Array:
        return self._out[self._boxes[box]]

    def _fold(self, box: int, segment: int, out: Array) -> None:
        """Reduces one segment of one box into `out`, in runs of runs of pieces."""
        first = len(self._pieces) * segment // self._segments
        last = len(self._pieces) * (segment + 1) // self._segments
        source = self._source[self._boxes[box]]
        run: Array | None = None
        total: Array | None = None
        for number, piece in enumerate(self._pieces[first:last]):
            part = source[(..., *piece[:-1])]
            result = np.asarray(self._ufunc.reduce(part, axis=self._axes, dtype=self._out.dtype))
            if run is None:
                run = result
            else:
                self._ufunc(run, result, out=run)
            if number % CHAIN == CHAIN - 1:
                if total is None:
                    total = run
                else:
                    self._ufunc(total, run, out=total)
                run = None
        if total is not None and run is not None:
            self._ufunc(total, run, out=total)
        np.copyto(out, total if total is not None else run)  # type: ignore[arg-type]


def _merged(source: Array, kept: int) -> tuple[Array, int]:
    """The reduced axes ordered by stride, and as one where they lie in a row.

    Integers do not care for the order, floats get one that depends on the layout alone; the
    engine gives one layout to one graph.
    """
    order = sorted(range(kept, source.ndim), key=lambda axis: (-abs(source.strides[axis]), axis))
    moved = source.transpose((*range(kept), *order))
    shape = list(moved.shape[kept:])
    steps = list(moved.strides[kept:])
    place = len(shape) - 2
    while place >= 0:
        if shape[place] == 1 or steps[place] == steps[place + 1] * shape[place + 1]:
            shape[place : place + 2] = [shape[place] * shape[place + 1]]
            steps[place : place + 2] = [steps[place + 1]]
        place -= 1
    merged = np.lib.stride_tricks.as_strided(
        moved, (*moved.shape[:kept], *shape), (*moved.strides[:kept], *steps), writeable=False
    )
    return merged, len(shape)


def reduce_arg(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """argmax and argmin along one axis: the first of equals, the first NaN."""
    find = np.argmax if text_attribute(attributes, "function") == "argmax" else np.argmin
    axis = int_attribute(attributes, "axis")
    source = np.moveaxis(reads[0], axis, -1)
    out = writes[0]
    if bool_attribute(attributes, "keepdims"):
        out = out.reshape(source.shape[:-1])
    boxes = cut(out.shape, max(1, ARG_ELEMENTS // source.shape[-1]))

    def block(number: int) -> None:
        box = boxes[number]
        np.copyto(out[box], find(source[box], axis=-1))

    context.blocks(len(boxes), block)
