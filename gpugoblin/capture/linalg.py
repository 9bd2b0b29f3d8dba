"""`gg.linalg`: the extension for linear algebra of the Python array API standard.

Owns: the standard's arguments on top of the catalog's operators. Each function takes lazy arrays or
ndarrays, the last two axes of which are the matrix, and raises `CaptureError` with the researcher's
line.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from gpugoblin.capture import products, reducing, shaping
from gpugoblin.capture.applying import apply, refused
from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import caller
from gpugoblin.capture.creation import eye
from gpugoblin.capture.elementwise import cast, elementwise
from gpugoblin.capture.expression import Value
from gpugoblin.capture.functions import (
    choose,
    expand_dims,
    matmul,
    matrix_transpose,
    tensordot,
    vecdot,
)
from gpugoblin.capture.indexing import take_index
from gpugoblin.capture.picking import iota, pick
from gpugoblin.capture.reductions import count_nonzero
from gpugoblin.capture.scalar_functions import reciprocal
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import CaptureError

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svd_lowrank", "svdvals", "tensordot", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip

Order = int | float | Literal["fro", "nuc"]


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Array
    S: Array
    Vh: Array


def cholesky(x: ArrayLike, *, upper: bool = False) -> Array:
    """The lower (or upper) triangle L with L L^T = x; NaN where x is not positive definite."""
    (found,) = _applied("cholesky", x)
    return found.mT if upper else found


def det(x: ArrayLike) -> Array:
    """The determinants."""
    return _applied("det", x)[0]


def slogdet(x: ArrayLike) -> SlogdetResult:
    """The signs of the determinants, and the logarithms of their magnitudes."""
    return SlogdetResult(*_applied("slogdet", x))


def inv(x: ArrayLike) -> Array:
    """The inverses; NaN where a matrix is singular."""
    return _applied("inverse", x)[0]


def solve(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The y with x1 y = x2, where x2 is one column (1-d) or a matrix of columns."""
    place = caller()
    matrix, right = as_value(x1, place), as_value(x2, place)
    column = right.spec.rank == 1
    if column:
        right = shaping.expand_dims(right, -1, place)
    batch = np.broadcast_shapes(matrix.spec.shape[:-2], right.spec.shape[:-2])
    matrix = shaping.broadcast_to(matrix, (*batch, *matrix.spec.shape[-2:]), place)
    right = shaping.broadcast_to(right, (*batch, *right.spec.shape[-2:]), place)
    found = Value(apply("solve", [matrix, right], place), 0)
    return Array(shaping.squeeze(found, -1, place) if column else found)


def solve_triangular(
    x1: ArrayLike,
    x2: ArrayLike,
    *,
    lower: bool = False,
    transpose: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The y with T y = x2 (of T^T y = x2 with `transpose`) for the upper (or `lower`) triangle T of
    x1, whose diagonal counts as ones if `unit_diagonal`. Both have as many rows, and equal batch
    axes."""
    place = caller()
    values = [as_value(x1, place), as_value(x2, place)]
    node = apply("triangular_solve", values, place, lower=lower, transpose=transpose,
                 unit_diagonal=unit_diagonal)  # fmt: skip
    return Array(Value(node, 0))


def qr(x: ArrayLike, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """x = Q R with Q of orthonormal columns, and R upper triangular."""
    if mode != "reduced":
        raise CaptureError(
            "function_refused", line=caller(), function=f"gg.linalg.qr(mode={mode!r})",
            reason="the catalog has no complete factors", fix="Use the mode reduced.",
        )  # fmt: skip
    return QRResult(*_applied("qr", x))


def eigh(x: ArrayLike) -> EighResult:
    """The rising eigenvalues of symmetric matrices, and their eigenvectors as columns."""
    vectors, values = _applied("eigh", x)
    return EighResult(values, vectors)


def eigvalsh(x: ArrayLike) -> Array:
    """The rising eigenvalues of symmetric matrices."""
    return eigh(x).eigenvalues


def svd(x: ArrayLike, *, full_matrices: bool = True) -> SVDResult:
    """x = U diag(S) Vh. `full_matrices` must be False unless the matrix is square."""
    place = caller()
    value = as_value(x, place)
    if full_matrices and value.spec.shape[-1:] != value.spec.shape[-2:-1]:
        raise CaptureError(
            "function_refused", line=place, function="gg.linalg.svd(full_matrices=True)",
            reason="the catalog has no complete factors", fix="Pass full_matrices=False.",
        )  # fmt: skip
    return SVDResult(*_applied("svd", x))


def svd_lowrank(
    x: ArrayLike, rank: int, *, oversample: int = 16, iterations: int = 2, seed: int = 0
) -> SVDResult:
    """The `rank` largest singular values of a matrix and their vectors, by random projections.

    Nothing is larger than the matrix with `rank + oversample` columns, so that it works on arrays
    larger than any engine. Each of the `iterations` takes two more passes over the matrix and makes
    values that fall slowly more exact (N. Halko, P. Martinsson, J. Tropp, Finding structure with
    randomness, 2011, algorithms 4.4 and 5.1). `seed` names the random numbers.
    """
    place = caller()
    value = as_value(x, place)
    least = min(value.spec.shape) if value.spec.rank == 2 else 0
    if value.spec.rank != 2 or not 1 <= rank <= least or iterations < 0 or oversample < 0:
        raise refused(
            "svd_lowrank", [value], f"rank {rank} of that is not defined",
            "Use one matrix, and a rank from 1 to its smaller extent.", place,
        )  # fmt: skip
    count = min(least, rank + oversample)
    matrix = Array(value)
    random = np.random.default_rng(seed).standard_normal((value.spec.shape[1], count))
    basis = qr(matrix @ random.astype(DTYPES[value.spec.dtype])).Q
    for _ in range(iterations):
        basis = qr(matrix @ qr(matrix.mT @ basis).Q).Q
    left, values, right = svd(basis.mT @ matrix, full_matrices=False)
    return SVDResult(basis @ left[:, :rank], values[:rank], right[:rank, :])


def svdvals(x: ArrayLike) -> Array:
    """The falling singular values."""
    return _applied("svd", x)[1]


def pinv(x: ArrayLike, *, rtol: float | None = None) -> Array:
    """The pseudo-inverses: singular values of at most `rtol` times the largest count as 0."""
    left, values, right = _applied("svd", x)
    kept = values > _largest(values) * _tolerance(left, right, rtol)
    scale = choose(kept, reciprocal(choose(kept, values, 1.0)), 0.0)
    return (right.mT * expand_dims(scale, -2)) @ left.mT


def matrix_rank(x: ArrayLike, *, rtol: float | None = None) -> Array:
    """How many singular values are above `rtol` times the largest, as int64."""
    left, values, right = _applied("svd", x)
    return count_nonzero(values > _largest(values) * _tolerance(left, right, rtol), axis=-1)


def _largest(values: Array) -> Array:
    """The largest along the last axis, which stays."""
    return values.max(axis=-1, keepdims=True)


def _tolerance(left: Array, right: Array, rtol: float | None) -> float:
    epsilon = float(np.finfo(left.dtype).eps)
    return max(left.shape[-2], right.shape[-1]) * epsilon if rtol is None else rtol


def _applied(operator: str, x: ArrayLike) -> tuple[Array, ...]:
    place = caller()
    node = apply(operator, [as_value(x, place)], place)
    return tuple(Array(Value(node, number)) for number in range(len(node.specs)))


def outer(x1: ArrayLike, x2: ArrayLike) -> Array:
    """All products of an element of one line with an element of the other."""
    place = caller()
    first, second = as_value(x1, place), as_value(x2, place)
    if (first.spec.rank, second.spec.rank) != (1, 1):
        raise refused("outer", [first, second], "two lines are wanted", "Pass 1-d arrays.", place)
    column = shaping.reshape(first, (first.spec.count, 1), place)
    return Array(elementwise("mul", (column, second), place))


def cross(x1: ArrayLike, x2: ArrayLike, *, axis: int = -1) -> Array:
    """The vector products of vectors of 3 along `axis`."""
    place = caller()
    both = [as_value(x1, place), as_value(x2, place)]
    parts = []
    for value in both:
        one = shaping.normal_axis("cross", value, axis, place)
        if value.spec.shape[one] != 3:
            raise refused("cross", both, "the axis is not of extent 3", "Name another.", place)
        whole = (slice(None),) * one
        parts.append([take_index(value, (*whole, slice(n, n + 1)), place) for n in range(3)])
    (a, b), found = parts, []
    for n in range(3):
        i, j = (n + 1) % 3, (n + 2) % 3
        plus = elementwise("mul", (a[i], b[j]), place)
        found.append(elementwise("sub", (plus, elementwise("mul", (a[j], b[i]), place)), place))
    return Array(shaping.concat(found, axis, place))


def diagonal(x: ArrayLike, *, offset: int = 0) -> Array:
    """The elements of each matrix where column - row is `offset`."""
    place = caller()
    value = as_value(x, place)
    if value.spec.rank < 2:
        raise refused("diagonal", [value], "there are no two axes", "Add an axis.", place)
    rows, columns = value.spec.shape[-2:]
    first, second = max(0, -offset), max(0, offset)
    count = max(0, min(rows - first, columns - second))
    start = iota(count, place)
    indices = [
        elementwise("add", (start, shift), place) if shift else start for shift in (first, second)
    ]
    return Array(pick(value, value.spec.rank - 2, indices, place))


def trace(x: ArrayLike, *, offset: int = 0) -> Array:
    """The sums of the diagonals."""
    place = caller()
    return Array(reducing.reduce("sum", diagonal(x, offset=offset).value, -1, False, place))


def matrix_power(x: ArrayLike, n: int) -> Array:
    """The product of `n` times the matrix, by squaring; 0 gives the unit matrix."""
    place = caller()
    value = as_value(x, place)
    if n < 0 or value.spec.rank < 2 or value.spec.shape[-1] != value.spec.shape[-2]:
        raise refused(
            "matrix_power", [value], f"the power {n} of that is not defined here",
            "Use a square matrix and a power of 0 or more.", place,
        )  # fmt: skip
    if n == 0:
        unit = eye(value.spec.shape[-1], dtype=value.spec.dtype).value
        return Array(shaping.broadcast_to(unit, value.spec.shape, place))
    found = None
    while n:
        if n & 1:
            found = value if found is None else products.matmul(found, value, place)
        n >>= 1
        value = products.matmul(value, value, place) if n else value
    return Array(value if found is None else found)


def vector_norm(
    x: ArrayLike,
    *,
    axis: reducing.Axis = None,
    keepdims: bool = False,
    ord: int | float = 2,
) -> Array:
    """The norm of order `ord` over `axis` (None: over all elements): 2, 1, 0, inf, -inf or any
    other number."""
    place = caller()
    size = elementwise("abs", (as_value(x, place),), place)
    if ord in (math.inf, -math.inf):
        return Array(reducing.reduce("max" if ord > 0 else "min", size, axis, keepdims, place))
    if ord == 0:
        counted = cast(elementwise("ne", (size, 0.0), place), size.spec.dtype, place)
        return Array(reducing.reduce("sum", counted, axis, keepdims, place))
    if ord == 1:
        return Array(reducing.reduce("sum", size, axis, keepdims, place))
    if ord == 2:
        total = reducing.reduce(
            "sum", elementwise("mul", (size, size), place), axis, keepdims, place
        )
        return Array(elementwise("sqrt", (total,), place))
    powers = elementwise("pow", (size, float(ord)), place)
    total = reducing.reduce("sum", powers, axis, keepdims, place)
    return Array(elementwise("pow", (total, 1.0 / ord), place))


def matrix_norm(x: ArrayLike, *, keepdims: bool = False, ord: Order | None = "fro") -> Array:
    """The norm of each matrix: `fro`, 1, -1, inf or -inf."""
    place = caller()
    value = as_value(x, place)
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise CaptureError(
            "function_refused", line=place, function=f"gg.linalg.matrix_norm(ord={ord!r})",
            reason="the catalog has no operator for singular values",
            fix="Use fro, 1, -1, inf or -inf, or NumPy's.",
        )  # fmt: skip
    along, over = (-2, -1) if abs(float(ord)) == 1 else (-1, -2)
    sums = reducing.reduce("sum", elementwise("abs", (value,), place), along, True, place)
    chosen = "max" if float(ord) > 0 else "min"
    found = reducing.reduce(chosen, sums, over, True, place)
    if keepdims:
        return Array(found)
    return Array(shaping.reshape(found, value.spec.shape[:-2], place))
