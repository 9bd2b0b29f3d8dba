"""The product check: is C really A B (+ carry), for the cost of a few vectors?

Owns: the decision about returned products (R. Freivalds 1977, with a rounding-aware threshold).
Must not: trust anything of the result that could help a wrong one (see the last paragraph).

For secret vectors R the check compares C R with A (B R) + carry R, row by row. The error of row i
under vector v is divided by

    scale(i, v)^2 = gain(v)^2 (|a_i|^2 + m_i^2) + |carry_i over the columns of v|^2

where gain(v)^2 is the energy of B under v divided by the inner length, |a_i| the norm of row i of
A, and m_i^2 the largest mean square, over all vectors, of the partial sums of A (B R) / gain along
the inner axis. The first part is the size of the row for unrelated data, the second grows for data
with a common sign and for sums that cancel; both bound the rounding of any summation order. Where a
partial sum stands out of its row by more than any of unrelated data does, a few large elements make
it, and its own size takes the place of the bracket.

All this is about columns of one size: those of B, of the result and of the carry are multiplied by
the same powers of two first (`projection.ColumnSizes`).

Where rows of A resemble some columns of B and not others (patches of one photograph), the result is
much larger in a few blocks than both parts say, and so is its honest rounding. So scale^2 is at
least the energy of the returned row under v. That helps no liar: a threshold of 1e-5 times what was
returned grows by 1e-5 of the lie, while the lie itself shows with its whole size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.errors import VerifyError
from gpugoblin.graph.ir import Graph
from gpugoblin.units import MIB
from gpugoblin.verify.calibration import carry_weight, threshold
from gpugoblin.verify.forms import ProductForm, product_form
from gpugoblin.verify.narrow import cut, products
from gpugoblin.verify.projection import RightHand, draw, right_hand

__all__ = ["ProductCheck", "ProductVerdict", "check_product", "project_right", "row_energy"]

_STEPS: Final = 8
_LONG: Final = 4096
_LEAST_STEP: Final = 16
_SPIKE: Final = 3.4
_CHAIN: Final = 512
_BAND_ELEMENTS: Final = 1 << 16
_CLEAR: Final = 0.5
_TINY: Final = 2.0**-126
_LARGEST: Final = 1e34


@dataclass(frozen=True, slots=True)
class ProductVerdict:
    """The decision. `code` is "", `product_mismatch` or `product_undecidable` (then recompute).

    `error` and `threshold` are in units of the scale; for integers `error` counts wrong rows.
    """

    accepted: bool
    error: float
    threshold: float
    code: str = ""

    def worse(self, other: ProductVerdict) -> ProductVerdict:
        """The verdict about both parts of a result; a part that cannot be judged decides."""
        for verdict in (self, other):
            if verdict.code == "product_undecidable":
                return verdict
        accepted = self.accepted and other.accepted
        return ProductVerdict(
            accepted,
            max(self.error, other.error),
            max(self.threshold, other.threshold),
            "" if accepted else "product_mismatch",
        )


def project_right(form: ProductForm, right: Array) -> tuple[RightHand, ...]:
    """Draws secrets and projects the right operand: once a panel, again after any rejection.

    Operands that are broadcast over the batch axes are projected once for each batch index only
    where they differ.
    """
    secret = draw(form.columns, form.dtype)
    if right.ndim == 2:
        matrix = right.swapaxes(-1, -2) if form.transpose_right else right
        return (right_hand(matrix, secret),) * max(1, form.batch_count)
    return tuple(right_hand(matrix, secret) for matrix in form.right_matrices(right))


def row_energy(left: Array) -> Array:
    """Sum of squares of each row of a floating matrix, as float64 of shape (rows,)."""
    with np.errstate(all="ignore"):
        energy: Array = np.vecdot(left, left).astype(np.float64)
    return energy


class _RowsCheck:
    """The check of one matrix product; rows of the result may come in any pieces."""

    def __init__(
        self,
        left: Array,
        hand: RightHand,
        carry: Array | None,
        energy: Array | None,
    ) -> None:
        self._hand = hand
        self._carry = carry
        self._inner = left.shape[1]
        self.limit = threshold(self._inner, left.dtype.itemsize)
        self.error = 0.0
        self.wrong_rows = 0
        self.undecidable = not hand.finite
        if left.dtype.kind == "f":
            self._prepare(left, row_energy(left) if energy is None else energy)
        else:
            with np.errstate(all="ignore"):
                self._expected = np.matmul(left, hand.projected)

    def _prepare(self, left: Array, energy: Array) -> None:
        vectors = self._hand.gain.size
        gain = np.where(self._hand.gain > 0, self._hand.gain, 1.0)
        self._gain = gain.astype(left.dtype)
        self._expected = np.zeros((left.shape[0], vectors), left.dtype)
        self._bracket = np.zeros(self._expected.shape, left.dtype)
        steps = _STEPS if self._inner >= _LONG else _STEPS // 2
        step = max(_LEAST_STEP, -(-self._inner // steps))
        parts = -(-step // _CHAIN)
        step = -(-step // parts)
        right = cut(self._hand.projected, step)
        height = max(1, _BAND_ELEMENTS // max(1, vectors * right.count))
        height = min(height, left.shape[0])
        # Fresh memory costs a good part of these sums: one piece for all bands, changed in place.
        sums = np.empty((right.count, height, vectors), left.dtype)
        with np.errstate(all="ignore"):
            for first in range(0, left.shape[0] if right.count else 0, max(1, height)):
                rows = slice(first, first + height)
                found = products(left[rows], right, sums)
                self._prepare_rows(rows, found, parts, energy[rows])
        # A row of exact zeros is fine; one whose squares vanish in float32 cannot be judged.
        small = np.flatnonzero(energy < 1e-20)
        self.undecidable |= small.size > 0 and bool(np.any(left[small] != 0))

    def _prepare_rows(self, rows: slice, sums: Array, parts: int, energy: Array) -> None:
        """What some rows must be, and their scale, from their sums by pieces of the inner axis."""
        count, _, vectors = sums.shape
        for number in range(1, count):
            sums[number] += sums[number - 1]
        self._expected[rows] = sums[-1]
        partial = sums[-1 - (count - 1) // parts * parts :: parts]
        partial /= self._gain
        np.square(partial, out=partial)
        mean = np.matmul(partial, np.full(vectors, 1.0 / vectors, sums.dtype))
        spread = mean.max(axis=0).astype(np.float64)
        peak = partial.max(axis=0)
        size = energy + spread
        plain = size.astype(sums.dtype)[:, None]
        self._bracket[rows] = np.where(peak > sums.dtype.type(_SPIKE**2) * plain, peak, plain)
        self.undecidable |= not bool(np.all(np.isfinite(size) & (size < _LARGEST)))

    def take(self, first: int, rows: Array) -> bool:
        """Judges rows `first` and on of the result (a private copy). False when they are wrong."""
        last = first + rows.shape[0]
        if self.undecidable or rows.size == 0:
            return not self.undecidable
        carry = None if self._carry is None else self._carry[first:last]
        if rows.dtype.kind != "f":
            return self._take_integers(first, last, rows, carry)
        if self._wrong_beside_zeros(rows, carry):
            self.error = math.inf
            return False
        weights = None if self._hand.scale is None else self._hand.scale.weights
        with np.errstate(all="ignore"):
            if weights is not None:
                rows = rows * weights
                carry = None if carry is None else carry * weights
            off = self._hand.secret.project(rows)
            off -= self._expected[first:last]
            if carry is not None:
                return self._take_carried(first, rows, carry, off)
            np.abs(off, out=off)
            off -= self._inner * rows.shape[1] * _TINY
            ratio = off / (self._hand.gain * np.sqrt(self._bracket[first:last]))
        # Most results are this clearly right. The size of a returned row, which is a pass of its
        # own, only ever excuses more. A NaN on either side compares as not clear.
        worst = float(ratio.max())
        if not worst <= _CLEAR * self.limit:
            unclear = ~(ratio.max(axis=1) <= _CLEAR * self.limit)
            scale = np.maximum(self._scale(first, last)[unclear], self._own_energy(rows[unclear]))
            worst = _worst(off[unclear], scale)
        self.error = max(self.error, worst)
        return worst <= self.limit

    def _take_carried(self, first: int, rows: Array, carry: Array, off: Array) -> bool:
        """The same with what was carried in: its size counts, and its rounding is the result's."""
        with np.errstate(all="ignore"):
            off -= self._hand.secret.project(carry)
            scale = self._scale(first, first + rows.shape[0])
            scale += carry_weight(self._inner) * self._carry_energy(carry)
            scale = np.maximum(scale, self._own_energy(rows))
            worst = _worst(np.abs(off) - self._inner * rows.shape[1] * _TINY, scale)
        if not bool(np.all(scale < _LARGEST)):
            self.undecidable = True
            return False
        self.error = max(self.error, worst)
        return worst <= self.limit

    def _scale(self, first: int, last: int) -> Array:
        """Squares of the scale of some rows, without what the result and the carry say."""
        scale: Array = self._bracket[first:last].astype(np.float64) * self._hand.gain**2
        return scale

    def _wrong_beside_zeros(self, rows: Array, carry: Array | None) -> bool:
        """A column of zeros has zeros as its product, or what was carried in, to the last bit."""
        if self._hand.scale is None or self._hand.scale.zeros.size == 0:
            return False
        zeros = self._hand.scale.zeros
        wanted = 0.0 if carry is None else carry[:, zeros]
        return not bool(np.all(np.abs(rows[:, zeros] - wanted) <= _TINY))

    def _carry_energy(self, carry: Array) -> Array:
        secret = self._hand.secret
        starts = np.arange(0, carry.shape[1], secret.width)
        squares = carry.astype(np.float64) ** 2
        blocks = np.add.reduceat(squares, starts, axis=1)
        dense = np.matmul(squares, secret.matrix[:, secret.blocks :].astype(np.float64) ** 2)
        return np.concatenate((blocks, dense), axis=1)

    def _own_energy(self, rows: Array) -> Array:
        """Energy of the result's rows under each vector, in float32's own sums."""
        secret = self._hand.secret
        width, columns = secret.width, rows.shape[1]
        cut_at = columns // width * width
        grouped = rows[:, :cut_at].reshape(rows.shape[0], -1, width)
        with np.errstate(all="ignore"):
            squares = np.vecdot(grouped, grouped).astype(np.float64)
        if cut_at < columns:
            with np.errstate(all="ignore"):
                rest = np.vecdot(rows[:, cut_at:], rows[:, cut_at:]).astype(np.float64)
            squares = np.concatenate((squares, rest[:, None]), axis=1)
        return self._with_dense(squares)

    def _with_dense(self, squares: Array) -> Array:
        """Energies per block, and their sum for each dense vector."""
        total = squares.sum(axis=1, keepdims=True)
        dense = np.repeat(total, self._hand.secret.matrix.shape[1] - squares.shape[1], axis=1)
        return np.concatenate((squares, dense), axis=1)

    def _take_integers(self, first: int, last: int, rows: Array, carry: Array | None) -> bool:
        with np.errstate(all="ignore"):
            found = np.matmul(rows, self._hand.secret.matrix)
            wanted = self._expected[first:last]
            if carry is not None:
                wanted = wanted + np.matmul(carry, self._hand.secret.matrix)
        wrong = int(np.any(found != wanted, axis=1).sum())
        self.wrong_rows += wrong
        return wrong == 0


def _worst(off: Array, scale: Array) -> float:
    """The largest error in units of the scale.

    A NaN on either side must never pass: it compares as not (off <= 0). Nor a number so large that
    its square is infinite, which would excuse any error.
    """
    with np.errstate(all="ignore"):
        ratio = np.where(off > 0, off / np.sqrt(scale), 0.0)
    return float(np.where(np.isfinite(off) & np.isfinite(scale), ratio, np.inf).max())


class ProductCheck:
    """Checks one result against trusted operands, in pieces of whole rows.

    Args:
        left, carry: the trusted operands as the graph takes them; carry None where none.
        hands: from `project_right`, one a batch index.
        energy: `row_energy` of the one left operand, where it was summed while reading (no batch).
    """

    def __init__(
        self,
        form: ProductForm,
        left: Array,
        hands: Sequence[RightHand],
        carry: Array | None = None,
        energy: Array | None = None,
    ) -> None:
        self._form = form
        carries: Sequence[Array | None] = [None] * form.batch_count
        if carry is not None:
            carries = list(carry.reshape(form.batch_count, form.rows, form.columns))
        self._checks = [
            _RowsCheck(matrix, hand, part, energy)
            for matrix, hand, part in zip(form.left_matrices(left), hands, carries, strict=True)
        ]

    def take(self, first: int, rows: Array) -> bool:
        """Judges rows of the result, counted over all batch indices; False when they are wrong.

        Args:
            rows: a private copy of shape (n, columns); what the engine may still change is not
                judged in place.
        """
        good = True
        height = self._form.rows
        at = 0
        while at < rows.shape[0]:
            batch, row = divmod(first + at, height)
            count = min(rows.shape[0] - at, height - row)
            good &= self._checks[batch].take(row, rows[at : at + count])
            at += count
        return good

    def verdict(self) -> ProductVerdict:
        """The decision about all rows that were taken. The caller has taken every row."""
        undecidable = any(check.undecidable for check in self._checks)
        if DTYPES[self._form.dtype].kind == "f":
            error = max((check.error for check in self._checks), default=0.0)
            limit = threshold(self._form.inner, DTYPES[self._form.dtype].itemsize)
        else:
            error = float(sum(check.wrong_rows for check in self._checks))
            limit = 0.0
        if undecidable:
            return ProductVerdict(False, error, limit, "product_undecidable")
        if not error <= limit:
            return ProductVerdict(False, error, limit, "product_mismatch")
        return ProductVerdict(True, error, limit)


def check_product(
    graph: Graph,
    inputs: Sequence[Array],
    output: Array,
    hands: Sequence[RightHand] | None = None,
) -> ProductVerdict:
    """Checks a whole result in memory. Draw the hands yourself to share them over a panel.

    Raises:
        VerifyError: `not_a_product`, `result_shape`.
    """
    form = product_form(graph)
    if form is None:
        raise VerifyError("not_a_product")
    declared = graph.output_specs()[0]
    if output.shape != declared.shape or str(output.dtype) != declared.dtype:
        found = f"{output.dtype}{list(output.shape)}"
        raise VerifyError("result_shape", output=0, found=found, expected=str(declared))
    if hands is None:
        hands = project_right(form, inputs[form.right])
    carry = None if form.carry is None else inputs[form.carry]
    check = ProductCheck(form, inputs[form.left], hands, carry)
    rows = output.reshape(math.prod(form.batch) * form.rows, form.columns)
    band = max(1, MIB // max(1, form.columns * rows.itemsize))
    for first in range(0, rows.shape[0], band):
        check.take(first, np.array(rows[first : first + band], order="C"))
    return check.verdict()
