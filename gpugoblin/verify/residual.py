"""The residual check: do factors make up their matrix, for the cost of a few vectors?

Owns: the decision about returned factorizations and solutions of linear systems. Must not: factor
anything, or take a scale from the result where the operand has one.

What is asked is what the catalog asks of a backend (`catalog.matrices`): the result is the exact
one of an operand that is off by little, orthonormal vectors are so to as much, and the choices that
make the result unique are made (an order of rows in which no multiplier exceeds 1, a diagonal
without negative numbers, rising or falling values, the signs of vectors). It is not compared with
another result: where two eigenvalues or two pivots are nearly equal, honest results differ wholly,
and each of them passes.

For secret vectors X (entries drawn evenly up to the root of 3, so that their mean square is 1) each
product with the operand is compared with that of the factors, from right to left:

* `cholesky`, `lu`, `solve`, `triangular_solve`: row by row. |A - F G| is at most n u |F| |G|
  element by element for any order of the sums (N. J. Higham, Accuracy and Stability of Numerical
  Algorithms, 2nd edition, theorems 8.5, 9.3 and 10.3); roundings without a common sign reach its
  root, and the size of sums on their way is that of the sum or of unrelated terms, so that

      scale(i, v)^2 = sum_j x_jv^2 (a_ij^2 + sum_k f_ik^2 g_kj^2)

  and no row excuses another: graded matrices are checked in all their sizes.
* `qr`, `eigh`, `svd`: by the length of each residual, as reflections carry rounding from row to
  row. Against |A|, by columns of one size for `qr`. Beside it Q^T Q X = X for all vectors.

Columns are brought to one size by powers of two that come from the operand (of solutions, from the
right sides). The secrets also make an error e of a row pass one vector with a chance of at most
0.82 t / |e| where t is what is allowed (decision 070), and all four with its fourth power.

The limits are `CALIBRATED`, measured as in `verify.calibration`; decision 058 has the figures.
For an error of at most g in the Frobenius norm the evenness of the entries bounds the chance of an
honest |E x| above t g by t exp((1 - t^2) / 2), since E exp(c |E x|^2) is at most that of one
direction, (1 - 2 c g^2)^(-1/2).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.ops.spectral import SIGN_SHARE
from gpugoblin.catalog.rules import bool_attribute
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.verify.forms import FactorForm
from gpugoblin.verify.product import ProductVerdict

__all__ = ["CALIBRATED", "VECTORS", "check_factors", "draw_vectors"]

VECTORS: Final = 4
CALIBRATED: Final = {
    "cholesky": (2.0, 16),
    "lu": (2.0, 16),
    "qr": (2.0, 256),
    "eigh": (6.0, 256),
    "svd": (5.0, 256),
    "triangular_solve": (2.0, 16),
    "solve": (4.0, 16),
}
"""The limits, in units of the scale and the unit roundoff: a factor, which holds a margin of 2 or
more, times the root of the largest extent and a number that stands for what does not grow with it.
For `solve` times the extent itself: the scale has not seen how the elements of its factors grew,
which is about as its root."""

_LARGEST_ENTRY: Final = math.sqrt(3.0)
_BAND_ELEMENTS: Final = 1 << 17
_LEAST_SCALE: Final = 1e-150
"""Squares of anything smaller lose their digits in float64."""
_LOOSE: Final = 16.0
"""Roundings by which a multiplier may exceed 1, or a component the edge of its sign's rule."""

_GOOD: Final = ProductVerdict(True, 0.0, 1.0)
_WRONG: Final = ProductVerdict(False, math.inf, 1.0, "product_mismatch")
_OPEN: Final = ProductVerdict(False, 0.0, 1.0, "product_undecidable")


def draw_vectors(form: FactorForm) -> Array:
    """Fresh secrets from the system's random bytes, as many rows as the largest extent. Draw after
    the result's hash is committed."""
    key = np.frombuffer(os.urandom(16), np.uint64)
    random = np.random.Generator(np.random.Philox(key=key))
    return random.uniform(-_LARGEST_ENTRY, _LARGEST_ENTRY, (_extent(form), VECTORS))


def check_factors(
    form: FactorForm,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    vectors: Array | None = None,
) -> ProductVerdict:
    """The decision about a whole result in private memory.

    Args:
        inputs, outputs: of the graph, trusted and not. Their dtypes and shapes are the graph's.
        vectors: of `draw_vectors`, to judge two results alike.

    Returns:
        `error` in units of what is allowed. `product_undecidable` where the result says that there
        is none (NaN), or where squares leave the range of float64: recompute then.
    """
    if vectors is None:
        vectors = draw_vectors(form)
    operands = [inputs[number] for number in form.operands]
    results = [outputs[number] for number in form.results]
    verdict = _GOOD
    for index in np.ndindex(*form.batch):
        found = _Matrix(form, [one[index] for one in operands], [one[index] for one in results])
        verdict = verdict.worse(found.verdict(vectors))
        if verdict.code == "product_mismatch":
            break
    return verdict


def _extent(form: FactorForm) -> int:
    return max(1, *(extent for shape in form.shapes for extent in shape))


class _Matrix:
    """The check of one matrix of the batch."""

    def __init__(self, form: FactorForm, operands: list[Array], results: list[Array]) -> None:
        self._form = form
        self._operands = operands
        self._results = results
        kind = np.finfo(DTYPES[form.dtype])
        self._unit = float(kind.eps) / 2
        self._tiny = float(kind.tiny)
        factor, few = CALIBRATED[form.operator]
        power = 1.0 if form.operator == "solve" else 0.5
        self._limit = factor * float((_extent(form) + few) ** power) * self._unit

    def verdict(self, vectors: Array) -> ProductVerdict:
        if not all(np.isfinite(one).all() for one in self._operands):
            return _GOOD if all(map(_is_nothing, self._results)) else _WRONG
        nothing = all(map(_is_nothing, self._results)) and self._results[0].size > 0
        if self._has_none():
            return _GOOD if nothing else _WRONG
        floats = [one for one in self._results if one.dtype.kind == "f"]
        if not all(np.isfinite(one).all() for one in floats):
            return _OPEN if nothing else _WRONG
        with np.errstate(all="ignore"):
            error = self._error(vectors)
        if error is None:
            return _WRONG
        if math.isnan(error):
            return _OPEN
        return ProductVerdict(error <= 1, error, 1.0, "" if error <= 1 else "product_mismatch")

    def _has_none(self) -> bool:
        """Whether there is no result for certain."""
        a, given = self._operands[0], self._form.attributes
        if self._form.operator == "cholesky":
            return bool((np.diagonal(a) <= 0).any())
        solved = self._form.operator == "triangular_solve"
        singular = solved and not bool_attribute(given, "unit_diagonal")
        return singular and bool((np.diagonal(a) == 0).any())

    def _error(self, vectors: Array) -> float | None:
        """In units of what is allowed, NaN where it cannot be measured, None where the result has
        not the form that makes it unique."""
        match self._form.operator:
            case "cholesky":
                return self._cholesky(vectors)
            case "lu":
                return self._lu(vectors)
            case "qr":
                return self._qr(vectors)
            case "eigh":
                return self._eigh(vectors)
            case "svd":
                return self._svd(vectors)
            case "triangular_solve":
                return self._triangular(vectors)
            case _:
                return self._solved(self._operands[0], vectors, unit=False)

    def _cholesky(self, vectors: Array) -> float | None:
        (a,), (lower,) = self._operands, self._results
        size = np.diagonal(a).astype(np.float64)
        if np.triu(lower, 1).any() or not (np.diagonal(lower) > 0).all():
            return None
        x = self._drawn(vectors, np.sqrt(size))
        whole, turned = (_times(a, x, x * x, turn) for turn in (False, True))
        inner = _times(lower, x, x * x, True)
        return self._by_rows(
            ((whole[0] + turned[0]) / 2, (whole[1] + turned[1]) / 2), _times(lower, *inner), x
        )

    def _lu(self, vectors: Array) -> float | None:
        (a,), (both, order) = self._operands, self._results
        lower = np.tril(both, -1)
        most = 1 + _LOOSE * self._unit
        if (
            not np.array_equal(np.sort(order), np.arange(order.size))
            or (np.abs(lower) > most).any()
        ):
            return None
        x = self._drawn(vectors, _lengths(a))
        target = _times(a, x, x * x)
        inner = _times(np.triu(both), x, x * x)
        product = _times(lower, *inner)
        return self._by_rows(
            (target[0][order], target[1][order]), (product[0] + inner[0], product[1] + inner[1]), x
        )

    def _triangular(self, vectors: Array) -> float:
        given = self._form.attributes
        cut = np.tril if bool_attribute(given, "lower") else np.triu
        unit = bool_attribute(given, "unit_diagonal")
        step = (-1 if cut is np.tril else 1) if unit else 0
        return self._solved(cut(self._operands[0], step), vectors, unit=unit)

    def _solved(self, a: Array, vectors: Array, *, unit: bool) -> float:
        right, (found,) = self._operands[1], self._results
        x = self._drawn(vectors, _lengths(right))
        inner = _times(found, x, x * x)
        product = _times(a, *inner, bool_attribute(self._form.attributes, "transpose"))
        if unit:
            product = product[0] + inner[0], product[1] + inner[1]
        return self._by_rows(_times(right, x, x * x), product, x)

    def _qr(self, vectors: Array) -> float | None:
        (a,), (q, r) = self._operands, self._results
        if np.tril(r, -1).any() or not (np.diagonal(r) >= 0).all():
            return None
        sizes = _lengths(a)
        x = self._drawn(vectors, sizes)
        off = _times(a, x)[0] - _times(q, _times(r, x)[0])[0]
        scaled = math.sqrt(float(np.count_nonzero(sizes)))
        return self._worst(self._by_length(off, scaled, x), self._orthonormal(q, vectors))

    def _eigh(self, vectors: Array) -> float | None:
        (a,), (v, values) = self._operands, self._results
        if (np.diff(values) < 0).any() or not self._signed(v):
            return None
        x = vectors[: a.shape[0]]
        inner = _times(v, x)[0]
        whole = (_times(a, inner)[0] + _times(a, inner, None, True)[0]) / 2
        off = whole - _times(v, values[:, None] * x)[0]
        return self._worst(self._by_length(off, _size(a), x), self._orthonormal(v, vectors))

    def _svd(self, vectors: Array) -> float | None:
        (a,), (u, values, vh) = self._operands, self._results
        if (np.diff(values) > 0).any() or (values < 0).any() or not self._signed(u):
            return None
        x = vectors[: a.shape[1]]
        off = _times(a, x)[0] - _times(u, values[:, None] * _times(vh, x)[0])[0]
        return self._worst(
            self._by_length(off, _size(a), x),
            self._orthonormal(u, vectors),
            self._orthonormal(vh.T, vectors),
        )

    # what they share

    def _drawn(self, vectors: Array, sizes: Array) -> Array:
        """Secrets for columns of these sizes, which are all brought to one by powers of two.

        What flushed subnormals make of a column grows with it. So that this excuses nothing in
        others, columns that it reaches have vectors of their own, in which others are left out, and
        are not brought further than where it is as large as a rounding.
        """
        least = self._tiny * _extent(self._form) ** 2 / self._unit
        reached = (sizes > 0) & (sizes < least / self._unit)
        exponents = -np.round(np.log2(np.maximum(np.where(sizes == 0, 1, sizes), least)))
        x = vectors[: sizes.size] * np.exp2(exponents)[:, None]
        if not reached.any():
            return np.asarray(x)
        return np.hstack([np.where(some[:, None], x, 0.0) for some in (~reached, reached)])

    def _slack(self, x: Array) -> Array:
        """What flushed subnormals can make of a row, for each vector."""
        most = np.abs(x).max(axis=0, initial=0.0)
        return np.asarray(self._tiny * _extent(self._form) * most * len(x))

    def _by_rows(
        self, target: tuple[Array, Array], product: tuple[Array, Array], x: Array
    ) -> float:
        off = np.abs(target[0] - product[0]) - self._slack(x)
        scale = np.sqrt(target[1] + product[1])
        if not np.isfinite(scale).all() or (scale[off > 0] < _LEAST_SCALE).any():
            return math.nan
        return float(np.where(off > 0, off / scale, 0.0).max(initial=0.0)) / self._limit

    def _by_length(self, off: Array, size: float, x: Array) -> float:
        lengths = np.sqrt(np.sum(np.square(off), axis=0)) - self._slack(x) * math.sqrt(off.shape[0])
        if not (np.isfinite(lengths).all() and math.isfinite(size)):
            return math.nan
        worst = float(lengths.max(initial=0.0))
        return (worst / size if size else math.inf) / self._limit if worst > 0 else 0.0

    def _orthonormal(self, q: Array, vectors: Array) -> float:
        """Q^T Q X - X, for columns of length 1."""
        x = vectors[: q.shape[1]]
        off = _times(q, _times(q, x)[0], None, True)[0] - x
        return self._by_length(off, math.sqrt(q.shape[1]), x)

    def _signed(self, vectors: Array) -> bool:
        """Whether the first component of a column that counts is positive, for one reading of what
        counts; rounding decides about components at the very edge."""
        if vectors.size == 0:
            return True
        size = np.abs(vectors)
        edge = SIGN_SHARE * size.max(axis=0, initial=0.0)
        loose = _LOOSE * self._unit
        last = np.argmax(size >= edge * (1 + loose), axis=0)
        counts = (size >= edge * (1 - loose)) & (np.arange(vectors.shape[0])[:, None] <= last)
        return bool((counts & (vectors > 0)).any(axis=0).all())

    @staticmethod
    def _worst(*errors: float) -> float:
        found: float = max(errors)
        return math.nan if any(map(math.isnan, errors)) else found


def _is_nothing(result: Array) -> bool:
    """Whether a result says that there is none."""
    if result.dtype.kind == "f":
        return bool(np.isnan(result).all())
    return bool(np.array_equal(result, np.arange(result.size)))


def _lengths(matrix: Array) -> Array:
    """Of the columns, in float64; NaN where squares are too small for it."""
    total = np.zeros(matrix.shape[1])
    for band in _bands(matrix):
        total += np.sum(np.square(matrix[band], dtype=np.float64), axis=0)
    small = np.flatnonzero(total < _LEAST_SCALE**2)
    total[small[matrix[:, small].any(axis=0)]] = math.nan
    return np.sqrt(total)


def _size(matrix: Array) -> float:
    """The Frobenius norm."""
    return math.sqrt(float(np.sum(np.square(_lengths(matrix)))))


def _bands(matrix: Array) -> list[slice]:
    rows = max(1, _BAND_ELEMENTS // max(1, matrix.shape[1]))
    return [slice(first, first + rows) for first in range(0, matrix.shape[0], rows)]


def _times(
    matrix: Array, vectors: Array, energies: Array | None = None, turned: bool = False
) -> tuple[Array, Array]:
    """M X (with `turned`: M^T X), and the squares of M's elements times `energies`, in float64. By
    bands of rows, so that no wide copy of M is made."""
    height = matrix.shape[1 if turned else 0]
    found = np.zeros((2, height, vectors.shape[1]))
    for band in _bands(matrix):
        part = matrix[band].astype(np.float64)
        for place, given in enumerate((vectors, energies)):
            if given is None:
                continue
            if place:
                np.square(part, out=part)
            if turned:
                found[place] += part.T @ given[band]
            else:
                found[place, band] = part @ given
    return found[0], found[1]
