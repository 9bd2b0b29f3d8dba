"""Matrix products on the processor.

Owns: the fixed cut of a product into blocks, and the exact integer product. Must not: let BLAS use
threads of its own (the launcher sets OPENBLAS_NUM_THREADS=1), or let the cut depend on how many
threads there are: BLAS gives other bits for other block shapes.

float32: blocks of 1024 x 2048 of the result, each one `sgemm` over the whole inner index straight
into the output (measured: 198 GF/s on two Zen 4 cores against 179 with blocks of 256 x 1024).

Integers wrap around. NumPy has no BLAS for them, so they are cut into digits of 16 bits whose
products are exact in float64 sums of at most 2^20 terms (2^16 * 2^16 * 2^20 < 2^53), one `dgemm`
for each pair of digits that can reach the result. Where no sum can reach 2^24 or 2^53, which is so
for numbers of 8 bits, one `sgemm` or `dgemm` of the numbers themselves is exact.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from app.engine.context import Context
from gpugoblin.catalog.spec import Array

__all__ = ["blas_ready", "matmul_into"]

BLOCK_ROWS: Final = 1024
BLOCK_COLUMNS: Final = 2048
DIGIT_BITS: Final = 16
EXACT_ROWS: Final = 256
EXACT_COLUMNS: Final = 256
EXACT_TERMS: Final = 2048
"""Integer blocks are small: a thread holds float64 digits of both operands."""


def blas_ready(array: Array) -> bool:
    """True if BLAS takes the last two axes as they lie: one of them contiguous, no overlap."""
    item = array.itemsize
    *_, rows, columns = array.shape
    *_, row_step, column_step = array.strides
    if rows <= 1 and columns <= 1:
        return True
    by_row = column_step == item and (rows <= 1 or (row_step % item == 0 and row_step >= item))
    by_column = row_step == item and (
        columns <= 1 or (column_step % item == 0 and column_step >= item)
    )
    wide = by_row and (rows <= 1 or row_step >= columns * item)
    tall = by_column and (columns <= 1 or column_step >= rows * item)
    return wide or tall


def matmul_into(left: Array, right: Array, out: Array, context: Context) -> None:
    """`out[...] = left @ right` for operands of rank 2 or more with equal or broadcast batch axes.

    Args:
        left: [..., m, k]. right: [..., k, n]. out: [..., m, n], C-contiguous in its last axis.
    """
    if out.size == 0:
        return
    if left.shape[-1] == 0:
        out[...] = 0
        return
    batch = out.shape[:-2]
    lefts = np.broadcast_to(left, batch + left.shape[-2:])
    rights = np.broadcast_to(right, batch + right.shape[-2:])
    exact = out.dtype.kind in "iu"
    rows, columns = (EXACT_ROWS, EXACT_COLUMNS) if exact else (BLOCK_ROWS, BLOCK_COLUMNS)
    down = -(-out.shape[-2] // rows)
    across = -(-out.shape[-1] // columns)
    small = max(1, _matrices_a_block(out.shape, left.shape[-1])) if batch and not exact else 1
    count = math.prod(batch)
    if small > 1:
        _batched(lefts, rights, out, small, context)
        return

    def block(number: int) -> None:
        matrix, rest = divmod(number, down * across)
        row, column = divmod(rest, across)
        where = np.unravel_index(matrix, batch) if batch else ()
        row_cut = slice(row * rows, (row + 1) * rows)
        column_cut = slice(column * columns, (column + 1) * columns)
        first, second = lefts[where][row_cut], rights[where][:, column_cut]
        target = out[where][row_cut, column_cut]
        if exact:
            _exact_block(first, second, target)
        else:
            np.matmul(first, second, out=target)

    context.blocks(count * down * across, block)


def _matrices_a_block(shape: tuple[int, ...], inner: int) -> int:
    """How many small matrices make a block of a few million flops."""
    flops = 2 * shape[-2] * shape[-1] * inner
    return (1 << 23) // max(1, flops)


def _batched(lefts: Array, rights: Array, out: Array, at_once: int, context: Context) -> None:
    """Many small products: NumPy's own loop over the last batch axis, cut in pieces."""
    outer = out.shape[:-3]
    length = out.shape[-3]
    pieces = -(-length // at_once)

    def block(number: int) -> None:
        matrix, piece = divmod(number, pieces)
        where = np.unravel_index(matrix, outer) if outer else ()
        cut = slice(piece * at_once, (piece + 1) * at_once)
        np.matmul(lefts[where][cut], rights[where][cut], out=out[where][cut])

    context.blocks(math.prod(outer) * pieces, block)


def _digits(matrix: Array, count: int) -> list[Array]:
    """Digits of 16 bits as float64, lowest first; the highest one signed, so all stay small."""
    digits = [
        ((matrix >> (DIGIT_BITS * place)) & 0xFFFF).astype(np.float64) for place in range(count - 1)
    ]
    digits.append((matrix >> (DIGIT_BITS * (count - 1))).astype(np.float64))
    return digits


def _exact_block(left: Array, right: Array, out: Array) -> None:
    """Two's complement product of one block, modulo 2^32 or 2^64."""
    kind: np.dtype[Any] = out.dtype
    if _exact_at_once(left, right, out):
        return
    count = max(1, kind.itemsize * 8 // DIGIT_BITS)
    total = np.zeros(out.shape, np.uint64)
    for start in range(0, left.shape[1], EXACT_TERMS):
        cut = slice(start, start + EXACT_TERMS)
        lefts = _digits(np.ascontiguousarray(left[:, cut]), count)
        rights = _digits(np.ascontiguousarray(right[cut]), count)
        for place in range(count):
            # |sum| < (place + 1) * 2^11 * 2^32 <= 2^45: exact in float64.
            partial = lefts[0] @ rights[place]
            for first in range(1, place + 1):
                partial += lefts[first] @ rights[place - first]
            total += partial.astype(np.int64).view(np.uint64) << np.uint64(DIGIT_BITS * place)
    np.copyto(out, total.astype(np.dtype(f"u{kind.itemsize}")).view(kind))


def _exact_at_once(left: Array, right: Array, out: Array) -> bool:
    """The product of small numbers, in one: true if no sum can leave what a float has exactly."""
    largest = [max(abs(int(one.max())), abs(int(one.min()))) for one in (left, right)]
    bound = largest[0] * largest[1] * left.shape[1]
    if bound >= min(2**53, 2 ** (8 * out.itemsize - 1)):
        return False
    kind: Any = np.float32 if bound < 2**24 else np.float64
    np.copyto(out, left.astype(kind) @ right.astype(kind), casting="unsafe")
    return True
