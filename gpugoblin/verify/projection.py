"""Secret random vectors, and the right operand seen through them.

Owns: the drawing of secrets and everything that depends on the right operand only, so that one
panel's share of the work is done once for all tiles of the panel. Must not: see a result; keep a
secret once a result was rejected (the caller draws again).

Two sets of vectors for float32. The block set has one vector per `BLOCK_COLUMNS` columns, zero
outside its block, with entries of random sign and size 0.97 to 1.03: a single wrong element always
shows with at least 0.97 of its size, against the rounding of its own block only. The dense set has
four vectors over all columns, with entries of any size up to the root of 3: errors that cancel
inside a block do not cancel there, and one element that makes a whole row (a diagonal) never counts
much more in a vector than in its row's size, as it did four times under Gaussian entries.
Columns of other sizes than most are brought to one size first, by powers of two that come from the
operand: `A (B W) = C W`. Else a large column would excuse any error in the small ones of its block.
A column of zeros excuses none: its results are compared as they are.
Integers are projected by uniformly drawn integers, modulo 2^32 or 2^64 as the product itself; the
first vector is odd everywhere, so that no single wrong element can vanish.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.verify.narrow import Narrow, cut, products

__all__ = [
    "BLOCK_COLUMNS",
    "DENSE_VECTORS",
    "INTEGER_VECTORS",
    "ColumnScale",
    "ColumnSizes",
    "ProjectionSum",
    "RightHand",
    "Secret",
    "draw",
    "right_hand",
    "vector_count",
]

BLOCK_COLUMNS: Final = 128
WIDE_BLOCK_COLUMNS: Final = 112
DENSE_VECTORS: Final = 4
INTEGER_VECTORS: Final = 41
"""An error of 2^31 shows only in the parity of each vector: two of them escape one vector half of
the time. The first vector, odd everywhere, never sees a pair; the others let one in 2^40 pass."""
_MIN_BLOCKS: Final = 16
_CHAIN: Final = 512
"""Columns that are summed in one chain; BLAS would sum them all in one."""
_BAND_ELEMENTS: Final = 1 << 18
_DENSE_LARGEST: Final = math.sqrt(3.0)
"""Entries of the dense set are drawn evenly up to this, which gives them a mean square of 1."""
_OCTAVES: Final = 3
"""Columns within a factor of 2^1.5 of the middle one are left as they are."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Drawn vectors for results of `columns` columns.

    Args:
        signs: float32 of shape (columns,): the block set, all blocks side by side.
        width: columns of a block; the last block may be narrower.
        matrix: of shape (columns, vectors): block set, then dense set; or the integer vectors.
        narrow: the matrix in groups of neighboring blocks, each with those of its vectors that are
            not zero there: its blocks (`group` of them), then the dense set. None for integers.
    """

    signs: Array
    width: int
    matrix: Array
    narrow: Narrow | None = None

    @property
    def blocks(self) -> int:
        return int(self.matrix.shape[1]) - DENSE_VECTORS

    @property
    def group(self) -> int:
        """Blocks of one group."""
        return _group(self.width)

    def project(self, rows: Array) -> Array:
        """`rows @ matrix`, of shape (rows, vectors): float64 sums of short float32 chains.

        Integers stay what they are, modulo their size.
        """
        if self.narrow is None:
            found: Array = np.matmul(rows, self.matrix)
            return found
        parts = products(rows, self.narrow)
        group, blocks = self.group, self.blocks
        found = np.empty((rows.shape[0], self.matrix.shape[1]))
        sums = parts[:, :, :group].transpose(1, 0, 2).reshape(rows.shape[0], -1)
        found[:, :blocks] = sums[:, :blocks]
        parts[:, :, group:].sum(axis=0, dtype=np.float64, out=found[:, blocks:])
        return found


@dataclass(frozen=True, slots=True)
class ColumnScale:
    """What the sizes of a float32 operand's columns ask of a check.

    Args:
        weights: float32 powers of two of shape (columns,); None where all are 1.
        zeros: numbers of the columns that hold nothing but zeros.
        finite: whether every column can be used for a check.
    """

    weights: Array | None
    zeros: Array
    finite: bool


@dataclass(frozen=True, slots=True)
class RightHand:
    """The right operand times the secret, from a trusted operand.

    Args:
        projected: of shape (inner, vectors), `right @ secret.matrix`.
        gain: float64 of shape (vectors,): what each projected column measures for unrelated
            columns: the root of the operand's energy under the vector, divided by the inner length.
        finite: whether every entry can be used for a check.
        scale: of the columns; None for integers. `projected` and `gain` are of the scaled operand.
    """

    secret: Secret
    projected: Array
    gain: Array
    finite: bool
    scale: ColumnScale | None = None


def _generator() -> np.random.Generator:
    key = np.frombuffer(os.urandom(16), np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def block_width(columns: int) -> int:
    """128, or less for narrow results, so that at least 16 blocks speak about each row.

    Wide results, whose check costs little beside the product, have narrower blocks: a single wrong
    element shows more clearly.
    """
    widest = BLOCK_COLUMNS if columns <= _MIN_BLOCKS * BLOCK_COLUMNS else WIDE_BLOCK_COLUMNS
    return max(1, min(widest, columns // _MIN_BLOCKS))


def _group(width: int) -> int:
    return max(1, _CHAIN // width)


def _grouped(matrix: Array, width: int) -> Narrow:
    """The vectors of a floating secret without the zeros outside their groups."""
    group = _group(width)
    columns, blocks = matrix.shape[0], matrix.shape[1] - DENSE_VECTORS
    made = np.zeros((columns, group + DENSE_VECTORS), matrix.dtype)
    for number in range(-(-blocks // group)):
        rows = slice(number * group * width, (number + 1) * group * width)
        own = matrix[rows, number * group : min(blocks, (number + 1) * group)]
        made[rows, : own.shape[1]] = own
        made[rows, group:] = matrix[rows, blocks:]
    return cut(made, group * width)


def draw(columns: int, dtype: str) -> Secret:
    """Fresh secrets from the system's random bytes. Draw after the result's hash is committed."""
    random = _generator()
    kind = DTYPES[dtype]
    if kind.kind != "f":
        bits = random.integers(0, 2**64, (columns, INTEGER_VECTORS), dtype=np.uint64)
        bits[:, 0] |= np.uint64(1)
        low = bits.astype(np.uint32) if kind.itemsize == 4 else bits
        return Secret(np.empty(0, np.float32), 1, low.view(kind))
    width = block_width(columns)
    blocks = -(-columns // width)
    size = random.uniform(0.97, 1.03, columns) * random.choice((-1.0, 1.0), columns)
    signs = size.astype(kind)
    matrix = np.zeros((columns, blocks + DENSE_VECTORS), kind)
    every = np.arange(columns)
    matrix[every, every // width] = signs
    dense = random.random((columns, DENSE_VECTORS), dtype=kind.type)
    matrix[:, blocks:] = (2 * dense - 1) * _DENSE_LARGEST
    return Secret(signs, width, matrix, _grouped(matrix, width))


class ColumnSizes:
    """The sizes of a floating operand's columns, measured in pieces.

    Args:
        inner: rows of the operand. Every element must be given exactly once.

    `energy` is the sum of squares of each column so far, float64.
    """

    def __init__(self, inner: int, columns: int) -> None:
        self._inner = max(1, inner)
        self.energy = np.zeros(columns)
        self._some = np.zeros(columns, np.bool_)

    def add(self, first: int, band: Array) -> None:
        """Some rows of the columns `first` and on, of shape (n, columns)."""
        with np.errstate(all="ignore"):
            energy = np.einsum("kj,kj->j", band, band)
            self.energy[first : first + band.shape[1]] += energy
        blank = np.flatnonzero(energy == 0)
        if blank.size:
            self._some[first + blank] |= band[:, blank].any(axis=0)

    def scale(self) -> ColumnScale:
        """What a check needs, once everything was given."""
        with np.errstate(all="ignore"):
            size = np.sqrt(self.energy / self._inner)
        usable = (size > 1e-17) & (size < 1e17)
        zeros = np.flatnonzero((size == 0) & ~self._some)
        finite = int(usable.sum()) + zeros.size == size.size
        if not finite or zeros.size == size.size:
            return ColumnScale(None, zeros, finite)
        middle = float(np.median(size[usable]))
        octaves = np.zeros(size.shape)
        octaves[usable] = _OCTAVES * np.rint(np.log2(size[usable] / middle) / _OCTAVES)
        # What is carried into columns of zeros must not outweigh the others.
        octaves[zeros] = octaves.max()
        if not octaves.any():
            return ColumnScale(None, zeros, finite)
        return ColumnScale(np.exp2(-octaves).astype(np.float32), zeros, finite)


class ProjectionSum:
    """A right operand projected in pieces: bands of its rows, or of its columns.

    The sizes of its columns are measured on the way. Where they turn out to be alike, which is
    seldom otherwise, this one reading was all; else `scaled` begins a second one.

    Args:
        inner: rows of the operand. Every element must be given exactly once.
        scale: of its columns, measured before.
    """

    def __init__(self, secret: Secret, inner: int, scale: ColumnScale | None = None) -> None:
        vectors = secret.matrix.shape[1]
        self._secret = secret
        self._scale = scale
        self._weights = None if scale is None else scale.weights
        self._inner = inner
        self._projected = np.zeros((inner, vectors), secret.matrix.dtype)
        self._floating = secret.matrix.dtype.kind == "f"
        self._sizes = ColumnSizes(inner, secret.matrix.shape[0])

    def add_rows(self, first: int, band: Array) -> None:
        """Rows `first` and on, of shape (n, columns)."""
        height = max(1, _BAND_ELEMENTS // max(1, band.shape[1]))
        # Read by two: what is still in the processor's cache is read once.
        for start in range(0, band.shape[0], height):
            self._add_rows(first + start, band[start : start + height])

    def _add_rows(self, first: int, band: Array) -> None:
        with np.errstate(all="ignore"):
            if self._weights is not None:
                band = band * self._weights
            self._projected[first : first + band.shape[0]] = self._secret.project(band)
        if self._floating:
            self._sizes.add(0, band)

    def add_columns(self, first: int, band: Array) -> None:
        """Columns `first` and on, of shape (inner, n)."""
        last = first + band.shape[1]
        with np.errstate(all="ignore"):
            if self._weights is not None:
                band = band * self._weights[first:last]
            if not self._floating:
                self._projected += np.matmul(band, self._secret.matrix[first:last])
                return
            # Only the blocks that have some of these columns.
            blocks, width = self._secret.blocks, self._secret.width
            own = slice(first // width, -(-last // width))
            matrix = self._secret.matrix[first:last]
            self._projected[:, own] += np.matmul(band, matrix[:, own])
            self._projected[:, blocks:] += np.matmul(band, matrix[:, blocks:])
        self._sizes.add(first, band)

    def scaled(self) -> ProjectionSum | None:
        """None when everything is known now; else a sum to which all must be given again."""
        if not self._floating or self._scale is not None:
            return None
        self._scale = self._sizes.scale()
        if self._scale.weights is None:
            return None
        return ProjectionSum(self._secret, self._inner, self._scale)

    def right_hand(self) -> RightHand:
        """What a check needs, once everything was given and `scaled` wants nothing more."""
        secret, projected = self._secret, self._projected
        if not self._floating:
            return RightHand(secret, projected, np.ones(projected.shape[1]), True)
        # From the operand itself, not from the projection: columns that resemble each other may
        # cancel under a vector, their rounding errors do not.
        columns = self._sizes.energy
        energy = np.full(projected.shape[1], columns.sum())
        starts = np.arange(0, columns.size, secret.width)
        energy[: secret.blocks] = np.add.reduceat(columns, starts)
        with np.errstate(all="ignore"):
            gain = np.sqrt(energy / max(1, projected.shape[0]))
        # Beyond these sizes float32 sums inside a product may overflow or vanish where the
        # projection does not, or the other way around.
        usable = np.isfinite(gain) & ((gain == 0) | ((gain > 1e-17) & (gain < 1e17)))
        vanished = (gain == 0) & np.any(projected != 0, axis=0)
        finite = bool(usable.all() and not vanished.any())
        if self._scale is not None:
            finite &= self._scale.finite
        return RightHand(secret, projected, gain, finite, self._scale)


def right_hand(right: Array, secret: Secret) -> RightHand:
    """Projects one right operand of shape (inner, columns)."""
    total = ProjectionSum(secret, right.shape[0])
    if right.size:
        total.add_rows(0, right)
    again = total.scaled()
    if again is not None:
        again.add_rows(0, right)
        total = again
    return total.right_hand()


def vector_count(columns: int, dtype: str) -> int:
    """How many vectors a check of results of that width uses, counted in passes."""
    if DTYPES[dtype].kind != "f":
        return INTEGER_VECTORS
    return -(-columns // block_width(columns)) + DENSE_VECTORS
