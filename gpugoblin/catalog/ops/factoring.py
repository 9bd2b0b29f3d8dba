"""lu, cholesky and qr: factorizations without a search. Owns: their declarations, and the choices
that make each of them unique."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.along import scatter_along
from gpugoblin.catalog.building import call, filled, number, reshaped, spread
from gpugoblin.catalog.matrices import (
    BACKWARD,
    backward_error,
    matrix_operator,
    norms,
    require_square,
    smallest_singular,
)
from gpugoblin.catalog.matrix_building import (
    identity,
    product,
    symmetric,
    times,
    triangle,
    turned,
)
from gpugoblin.catalog.matrix_samples import broken, dominant, ramp
from gpugoblin.catalog.ops.solving import solve_lower
from gpugoblin.catalog.rounding import Format
from gpugoblin.catalog.samples import normal, sample, strided
from gpugoblin.catalog.spec import Array, Attributes, Builder, Operator, TensorSpec

__all__ = ["OPERATORS", "factor_lu"]

_BLOCK: Final = 32


# lu


def _lu_shapes(inputs: Sequence[TensorSpec], given: Attributes) -> tuple[TensorSpec, ...]:
    require_square("lu", inputs)
    return inputs[0], TensorSpec("int64", inputs[0].shape[:-1])


def factor_lu(matrices: Array) -> tuple[Array, Array]:
    """Both triangles in one matrix, and the rows of A in their order; partial pivoting, among
    equals the first. Blocks of columns, so that the most of it are products. [count, n, n]."""
    found = matrices.copy()
    count, extent = found.shape[:2]
    order = np.broadcast_to(np.arange(extent), (count, extent)).copy()
    each = np.arange(count)
    for start in range(0, extent, _BLOCK):
        stop = min(start + _BLOCK, extent)
        for column in range(start, stop):
            best = column + np.argmax(np.abs(found[:, column:, column]), axis=1)
            for rows in (found, order):
                chosen = rows[each, best].copy()
                rows[each, best] = rows[:, column]
                rows[:, column] = chosen
            pivot = found[:, column, column, None]
            below = found[:, column + 1 :, column]
            below[...] = np.where(pivot == 0, below, below / pivot)
            found[:, column + 1 :, column + 1 : stop] -= (
                below[:, :, None] * found[:, column, None, column + 1 : stop]
            )
        unit = np.tril(found[:, start:stop, start:stop], -1) + np.eye(stop - start)
        found[:, start:stop, stop:] = solve_lower(unit, found[:, start:stop, stop:])
        found[:, stop:, stop:] -= found[:, stop:, start:stop] @ found[:, start:stop, stop:]
    return found, order


def _lu_run(operands: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
    return factor_lu(operands[0])


def _lu_bounds(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    """For L' U' = A + E with F = L^-1 E U^-1 and f = |F| < 1: |L' - L| <= |L| f / (1 - f), and the
    same for U (Higham, theorem 9.15). The order of rows is certain where no multiplier can reach 1,
    and else everything is open."""
    both = outputs[0]
    extent = both.shape[-1]
    lower, upper = np.tril(both, -1) + np.eye(extent), np.triu(both)
    size = norms(np.abs(lower) @ np.abs(upper))
    wrong = (
        backward_error(inputs[0], errors[0], form) + BACKWARD * max(1, extent) * form.unit * size
    )
    inverse = np.sqrt(extent) / smallest_singular(lower), np.sqrt(extent) / smallest_singular(upper)
    share = wrong * inverse[0] * inverse[1]
    grown = np.where(share < 0.5, share / (1.0 - share), np.inf)
    of_lower, of_upper = norms(lower) * grown, norms(upper) * grown
    near = np.abs(np.tril(both, -1)).max(axis=(1, 2), keepdims=True, initial=0.0) + of_lower
    certain = (near < 1.0) | (extent < 2)
    places = np.arange(extent)
    error = np.where(places[:, None] > places, of_lower, of_upper)
    return (
        np.where(certain, error, np.inf),
        np.where(certain[:, 0], np.zeros(extent), np.inf),
    )


def _lu_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """P^T L^-T (tril(L^T L', -1) + triu(U' U^T)) U^-T for seeds L' and U' (F. de Hoog, R. Anderssen
    and M. Lukas, Differentiation of matrix functionals using triangular factorization, Mathematics
    of Computation 80, 2011)."""
    seed = seeds[0]
    if seed is None:
        return (None,)
    both, order = outputs
    lower = call(builder, "add", triangle(builder, both, "strict_lower"), identity(builder, both))
    upper = triangle(builder, both, "upper")
    by_lower = product(builder, lower, triangle(builder, seed, "strict_lower"), True)
    by_upper = product(builder, triangle(builder, seed, "upper"), upper, False, True)
    inner = call(
        builder,
        "add",
        triangle(builder, by_lower, "strict_lower"),
        triangle(builder, by_upper, "upper"),
    )
    left = builder.add(
        "triangular_solve", [both, inner], lower=True, transpose=True, unit_diagonal=True
    )
    rows = turned(
        builder, builder.add("triangular_solve", [both, turned(builder, left)], lower=False)
    )
    spec = builder.spec(rows)
    places = reshaped(builder, order, (*spec.shape[:-1], 1))
    places = spread(builder, places, spec.shape)
    return (scatter_along(builder, rows, places, spec.rank - 2, spec.shape[-2]),)


# cholesky


def _square(name: str, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    require_square(name, inputs)
    return (inputs[0],)


def _half(matrices: Array) -> Array:
    return np.asarray((matrices + np.swapaxes(matrices, -1, -2)) / 2)


def _cholesky_run(operands: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
    return (np.linalg.cholesky(_half(operands[0])),)


def _cholesky_bounds(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    """|L' - L| <= |L| k e / (sqrt(2) (1 - k e)) with k e = |A^-1| |E| (Higham, theorem 10.8). Where
    the smallest eigenvalue is within |E| of 0, there may be a factor or none."""
    a = inputs[0]
    finite = np.isfinite(a).all(axis=(1, 2))
    least = np.full(a.shape[0], np.inf)
    if a.shape[-1] and finite.any():
        least[finite] = np.linalg.eigvalsh(_half(a[finite]))[:, 0]
    wrong = backward_error(a, errors[0], form)
    share = wrong / least[:, None, None]
    error = norms(outputs[0]) * share / (1.0 - share)
    error = np.where(share < 0.5, error, np.inf)
    return (np.where(-least[:, None, None] > 2 * wrong, 0.0, error),)


def _cholesky_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """The symmetric part of L^-T phi(L^T L') L^-1; phi keeps the lower triangle and halves the
    diagonal (I. Murray, Differentiation of the Cholesky decomposition, 2016, section 3)."""
    factor, seed = outputs[0], seeds[0]
    if seed is None:
        return (None,)
    inner = product(builder, factor, triangle(builder, seed, "lower"), True)
    half = number(builder, 0.5, builder.spec(factor).dtype)
    lower = triangle(builder, inner, "lower")
    inner = times(
        builder, half, call(builder, "add", lower, triangle(builder, inner, "strict_lower"))
    )
    left = builder.add("triangular_solve", [factor, inner], lower=True, transpose=True)
    right = builder.add(
        "triangular_solve", [factor, turned(builder, left)], lower=True, transpose=True
    )
    return (symmetric(builder, right),)


# qr


def _qr_shapes(inputs: Sequence[TensorSpec], given: Attributes) -> tuple[TensorSpec, ...]:
    *batch, rows, columns = inputs[0].shape
    least, dtype = min(rows, columns), inputs[0].dtype
    return TensorSpec(dtype, (*batch, rows, least)), TensorSpec(dtype, (*batch, least, columns))


def _qr_run(operands: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
    q, r = np.linalg.qr(operands[0])
    sign = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return q * sign[:, None, :], r * sign[:, :, None]


def _qr_bounds(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    """Twice the first order: |Q' - Q| <= sqrt(2) |A1^+| |E| for the leading square or tall part A1
    (G. W. Stewart, Perturbation bounds for the QR factorization of a matrix, SIAM J. Numer. Anal.
    14, 1977), where |A1^+| |E| is at most 1/8, else anything; and R = Q^T A carries that on."""
    a = inputs[0]
    least = min(a.shape[1:])
    wrong = backward_error(a, errors[0], form)
    share = wrong / smallest_singular(a[:, :, :least])
    own = BACKWARD * max(1, *a.shape[1:]) * form.unit * np.sqrt(least)
    of_q = np.where(share <= 0.125, 2 * np.sqrt(2.0) * share + own, np.inf)
    return of_q, of_q * norms(a) + (1.0 + of_q) * wrong


def _qr_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """With M = R R'^T - Q'^T Q: (Q' + Q copyltu(M)) R^-T, where copyltu mirrors the lower triangle;
    a wide A = [X, Y] with R = [U, V] is that of X with Q' + Y V'^T, beside Q V' (D. Roberts and L.
    Roberts, QR and LQ decomposition matrix backpropagation algorithms for square, wide, and deep
    matrices, 2020, sections 3 and 4)."""
    q, r = outputs
    of_q, of_r = seeds
    if of_q is None and of_r is None:
        return (None,)
    *batch, rows, columns = builder.spec(inputs[0]).shape
    if of_r is not None:
        of_r = triangle(builder, of_r, "upper")
    if columns <= rows:
        return (_deep(builder, q, r, of_q, of_r),)
    square = _columns(builder, r, 0, rows)
    if of_r is None:
        first = _deep(builder, q, square, of_q, None)
        dtype = builder.spec(q).dtype
        rest = filled(builder, TensorSpec(dtype, (*batch, rows, columns - rows)))
        return (builder.add("concat", [first, rest], axis=len(batch) + 1),)
    late = _columns(builder, of_r, rows, columns)
    carried = product(builder, _columns(builder, inputs[0], rows, columns), late, False, True)
    of_q = carried if of_q is None else call(builder, "add", of_q, carried)
    first = _deep(builder, q, square, of_q, _columns(builder, of_r, 0, rows))
    return (builder.add("concat", [first, product(builder, q, late)], axis=len(batch) + 1),)


def _deep(builder: Builder, q: int, r: int, of_q: int | None, of_r: int | None) -> int:
    terms = []
    if of_r is not None:
        terms.append(product(builder, r, of_r, False, True))
    if of_q is not None:
        terms.append(call(builder, "neg", product(builder, of_q, q, True)))
    inner = terms[0] if len(terms) == 1 else call(builder, "add", *terms)
    lower = triangle(builder, inner, "strict_lower")
    mirrored = call(builder, "add", triangle(builder, inner, "lower"), turned(builder, lower))
    whole = product(builder, q, mirrored)
    if of_q is not None:
        whole = call(builder, "add", of_q, whole)
    back = builder.add("triangular_solve", [r, turned(builder, whole)], lower=False)
    return turned(builder, back)


def _columns(builder: Builder, value: int, start: int, stop: int) -> int:
    shape = builder.spec(value).shape
    rank = len(shape)
    return builder.add(
        "slice",
        [value],
        start=(*(0,) * (rank - 1), start),
        stop=(*shape[:-1], stop),
        step=(1,) * rank,
    )


LU: Final[Operator] = matrix_operator(
    "lu",
    (),
    _lu_shapes,
    _lu_run,
    lambda inputs, given: 2 * inputs[0].shape[-1] ** 3 / 3,
    _lu_bounds,
    (
        sample("plain", normal(5, 5)),
        sample("batch", normal(2, 3, 4, 4)),
        sample("dominant", dominant(4, 4)),
        sample("empty", normal(0, 3, 3)),
        sample("size_1", normal(1, 1)),
        sample("strided", strided(normal(3, 3))),
        sample("special", broken(dominant(3, 3, 3))),
        sample("larger", dominant(70, 70)),
    ),
    "The factors of square matrices by partial pivoting, A[order] = L U: both triangles in one "
    "matrix (the ones on the diagonal of L are not stored), and the int64 order of the rows. Among "
    "pivots of equal magnitude the first is taken.",
    _lu_grad,
)

CHOLESKY: Final[Operator] = matrix_operator(
    "cholesky",
    (),
    lambda inputs, given: _square("cholesky", inputs),
    _cholesky_run,
    lambda inputs, given: inputs[0].shape[-1] ** 3 / 3,
    _cholesky_bounds,
    (
        sample("plain", dominant(5, 5)),
        sample("batch", dominant(2, 3, 4, 4)),
        sample("empty", normal(0, 3, 3)),
        sample("size_1", dominant(1, 1)),
        sample("strided", strided(dominant(3, 3))),
        sample("special", broken(dominant(3, 3, 3))),
        sample("larger", dominant(70, 70)),
    ),
    "The lower triangle L with a positive diagonal and L L^T = (A + A^T) / 2; all of it is NaN "
    "where that is not positive definite.",
    _cholesky_grad,
)

QR: Final[Operator] = matrix_operator(
    "qr",
    (),
    _qr_shapes,
    _qr_run,
    lambda inputs, given: 4 * min(inputs[0].shape[-2:]) ** 2 * max(inputs[0].shape[-2:]),
    _qr_bounds,
    (
        sample("tall", ramp(6, 3)),
        sample("square", ramp(4, 4)),
        sample("wide", ramp(3, 5)),
        sample("batch", ramp(2, 3, 4, 2)),
        sample("empty", normal(0, 3, 2)),
        sample("no_columns", normal(3, 0)),
        sample("size_1", normal(1, 1)),
        sample("strided", strided(ramp(4, 3))),
        sample("special", broken(ramp(3, 3, 3))),
        sample("larger", ramp(70, 68)),
    ),
    "A = Q R with Q of orthonormal columns, as many as the smaller extent of A, and R upper "
    "triangular with nothing negative on its diagonal.",
    _qr_grad,
)

OPERATORS: Final = (LU, CHOLESKY, QR)
