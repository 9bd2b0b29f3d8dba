"""Products with a narrow right operand, in pieces that BLAS multiplies where they lie.

Owns: how such a product is cut. Must not: know what it is for.

A matrix times twenty vectors is one reading of the matrix, but BLAS first copies both operands into
blocks of its own, which costs as much again. It leaves that out for small products (OpenBLAS: up to
10^6 multiplications). And the sums along the inner axis, which BLAS makes in one chain, stay short
in pieces: the caller gets each piece's sums, and adds them in what precision it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpugoblin.catalog.spec import Array

__all__ = ["Narrow", "cut", "products"]

_SMALL: Final = 10**6
"""Multiplications of a product that OpenBLAS does without copying its operands."""
_LEAST_ROWS: Final = 8


@dataclass(frozen=True, slots=True)
class Narrow:
    """A right operand of shape (inner, vectors), cut along its inner axis.

    Args:
        pieces: of shape (count, step, vectors).
        rest: what is left behind the last whole piece, of shape (less than step, vectors).
    """

    pieces: Array
    rest: Array

    @property
    def count(self) -> int:
        """Pieces, the rest included."""
        return len(self.pieces) + (len(self.rest) > 0)


def cut(right: Array, step: int) -> Narrow:
    """Cuts an operand into pieces of `step`, without a copy where it is contiguous."""
    count = right.shape[0] // step
    whole = right[: count * step].reshape(count, step, right.shape[1])
    return Narrow(whole, right[count * step :])


def products(left: Array, right: Narrow, out: Array | None = None) -> Array:
    """The sums of `left @ right` by pieces, of shape (pieces, rows, vectors).

    Args:
        left: of shape (rows, inner), of any strides.
        out: where they go, of at least as many rows: fresh memory costs a good part of the sums.
    """
    count, step, vectors = right.pieces.shape
    rows = left.shape[0]
    found = np.empty((right.count, rows, vectors), left.dtype) if out is None else out[:, :rows]
    inner = count * step
    if right.rest.shape[0]:
        np.matmul(left[:, inner:], right.rest, out=found[count])
    band = _SMALL // max(1, step * vectors)
    if band < _LEAST_ROWS:
        band = rows
    bands = rows // band if band else 0
    whole = bands * band
    if bands and count:
        np.matmul(
            left[:whole, :inner].reshape(bands, band, count, step).transpose(0, 2, 1, 3),
            right.pieces,
            out=found[:count, :whole].reshape(count, bands, band, vectors).transpose(1, 0, 2, 3),
        )
    if whole < rows and count:
        np.matmul(
            left[whole:, :inner].reshape(rows - whole, count, step).transpose(1, 0, 2),
            right.pieces,
            out=found[:count, whole:],
        )
    return found
