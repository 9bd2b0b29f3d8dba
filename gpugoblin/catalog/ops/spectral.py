"""eigh and svd. Owns: their declarations, and the rule that gives each vector its sign.

The sign: of the components of a vector whose magnitude is at least 3/8 of the largest one, the
first is positive. The share is one that vectors of structured matrices do not have, where the
largest of all is often there twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.building import call, expression, number, reshaped
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.matrices import (
    BACKWARD,
    backward_error,
    matrix_operator,
    require_square,
)
from gpugoblin.catalog.matrix_building import (
    diagonal_matrix,
    identity,
    product,
    row_line,
    symmetric,
    times,
    turned,
)
from gpugoblin.catalog.matrix_samples import broken, dominant, ramp
from gpugoblin.catalog.rounding import Format
from gpugoblin.catalog.samples import normal, sample, strided
from gpugoblin.catalog.spec import Array, Attributes, Builder, Operator, TensorSpec

__all__ = ["OPERATORS", "SIGN_SHARE", "signs"]

SIGN_SHARE: Final = 0.375


def signs(vectors: Array) -> Array:
    """The signs of columns, 1 or -1, of shape [..., 1, columns]."""
    if not vectors.shape[-2]:
        return np.ones((*vectors.shape[:-2], 1, vectors.shape[-1]))
    size = np.abs(vectors)
    first = np.argmax(size >= SIGN_SHARE * size.max(axis=-2, keepdims=True), axis=-2)
    leading = np.take_along_axis(vectors, first[..., None, :], -2)
    return np.where(leading < 0, -1.0, 1.0)


def _open_signs(vectors: Array, error: Array) -> Array:
    """Columns whose sign an honest result may have otherwise: a component up to the leading one is
    as near to the share of the largest as the errors. [count, 1, columns]."""
    if not vectors.shape[-2]:
        return np.zeros((*vectors.shape[:-2], 1, vectors.shape[-1]), np.bool_)
    size = np.abs(vectors)
    edge = SIGN_SHARE * size.max(axis=-2, keepdims=True)
    first = np.argmax(size >= edge, axis=-2)[..., None, :]
    early = np.arange(vectors.shape[-2])[:, None] <= first
    return np.asarray((early & (np.abs(size - edge) <= 2 * error)).any(axis=-2, keepdims=True))


def _gaps(values: Array) -> Array:
    """The distance of each value to the nearest other. [count, n]."""
    apart = np.abs(values[:, :, None] - values[:, None, :])
    apart[:, np.arange(values.shape[1]), np.arange(values.shape[1])] = np.inf
    return np.asarray(apart.min(axis=-1, initial=np.inf))


def _of_vectors(vectors: Array, wrong: Array, gaps: Array, extent: int, form: Format) -> Array:
    """By the theorem of C. Davis and W. M. Kahan (The rotation of eigenvectors by a perturbation,
    1970): the angle is at most 2 |E| / gap where |E| is below a quarter of it, else anything."""
    share = wrong / gaps[:, None, :]
    error = np.where(share < 0.25, 4 * share + BACKWARD * max(1, extent) * form.unit, np.inf)
    return np.where(_open_signs(vectors, error), np.inf, error)


# eigh


def _eigh_shapes(inputs: Sequence[TensorSpec], given: Attributes) -> tuple[TensorSpec, ...]:
    require_square("eigh", inputs)
    spec = inputs[0]
    return spec, TensorSpec(spec.dtype, spec.shape[:-1])


def _half(matrices: Array) -> Array:
    return np.asarray((matrices + np.swapaxes(matrices, -1, -2)) / 2)


def _eigh_run(operands: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
    values, vectors = np.linalg.eigh(_half(operands[0]))
    return vectors * signs(vectors), values


def _eigh_bounds(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    """Values move no further than |E| (Weyl)."""
    vectors, values = outputs
    wrong = backward_error(inputs[0], errors[0], form)
    of_vectors = _of_vectors(vectors, wrong, _gaps(values), vectors.shape[-1], form)
    return of_vectors, np.broadcast_to(wrong[:, 0], values.shape)


def _inverse_differences(builder: Builder, line: int) -> int:
    """F[i, j] = 1 / (x[j] - x[i]), and 0 on the diagonal. Equal values give infinity."""
    spec = builder.spec(line)
    across = row_line(builder, line)
    down = reshaped(builder, line, (*spec.shape, 1))
    square = identity(builder, call(builder, "sub", across, down))

    def write(build: FormulaBuilder, x: int, y: int, one: int) -> int:
        return build.call(
            "sub", build.call("recip", build.call("add", build.call("sub", x, y), one)), one
        )

    return expression(builder, [across, down, square], write)


def _eigh_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """The symmetric part of V (diag(w') + F * (V^T V')) V^T (M. B. Giles, Collected matrix
    derivative results, 2008, section 3.1)."""
    vectors, values = outputs
    of_vectors, of_values = seeds
    terms = []
    if of_values is not None:
        terms.append(diagonal_matrix(builder, of_values))
    if of_vectors is not None:
        across = product(builder, vectors, of_vectors, True)
        terms.append(times(builder, _inverse_differences(builder, values), across))
    if not terms:
        return (None,)
    inner = terms[0] if len(terms) == 1 else call(builder, "add", *terms)
    whole = product(builder, product(builder, vectors, inner), vectors, False, True)
    return (symmetric(builder, whole),)


# svd


def _svd_shapes(inputs: Sequence[TensorSpec], given: Attributes) -> tuple[TensorSpec, ...]:
    *batch, rows, columns = inputs[0].shape
    least, dtype = min(rows, columns), inputs[0].dtype
    return (
        TensorSpec(dtype, (*batch, rows, least)),
        TensorSpec(dtype, (*batch, least)),
        TensorSpec(dtype, (*batch, least, columns)),
    )


def _svd_run(operands: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
    u, values, vh = np.linalg.svd(operands[0], full_matrices=False)
    sign = signs(u)
    return u * sign, values, vh * np.swapaxes(sign, -1, -2)


def _svd_bounds(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    """As for `eigh`, of the symmetric matrix of A and A^T, whose values are those of A and their
    negatives (G. H. Golub and C. F. Van Loan, Matrix Computations, 4th edition, section 8.6.1)."""
    u, values, _ = outputs
    wrong = backward_error(inputs[0], errors[0], form)
    gaps = np.minimum(_gaps(values), values)
    of_u = _of_vectors(u, 2 * wrong, gaps, max(inputs[0].shape[1:]), form)
    of_v = np.where(np.isinf(of_u).any(axis=-2, keepdims=True), np.inf, of_u)
    return of_u, np.broadcast_to(wrong[:, 0], values.shape), np.swapaxes(of_v, -1, -2)


def _svd_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """U (J S + S K + diag(s')) V^T, with J = F * (U^T U' - U'^T U), K the same of V, and
    F[i, j] = 1 / (s[j]^2 - s[i]^2); and what of U' and V' is outside of the spaces that U and V
    span, over s (J. Townsend, Differentiating the singular value decomposition, 2016)."""
    u, values, vh = outputs
    of_u, of_values, of_vh = seeds
    if all(seed is None for seed in seeds):
        return (None,)
    factors = _inverse_differences(builder, times(builder, values, values))
    row = row_line(builder, values)
    down = reshaped(builder, values, (*builder.spec(values).shape, 1))
    inner: list[int] = []
    if of_values is not None:
        inner.append(diagonal_matrix(builder, of_values))
    if of_u is not None:
        inner.append(times(builder, _turning(builder, factors, u, of_u), row))
    v, of_v = turned(builder, vh), None if of_vh is None else turned(builder, of_vh)
    if of_v is not None:
        inner.append(times(builder, down, _turning(builder, factors, v, of_v)))
    middle = inner[0]
    for term in inner[1:]:
        middle = call(builder, "add", middle, term)
    whole = product(builder, product(builder, u, middle), vh)
    rows, columns = builder.spec(inputs[0]).shape[-2:]
    one = number(builder, 1.0, builder.spec(values).dtype)
    if of_u is not None and rows > columns:
        outside = times(builder, _outside(builder, u, of_u), call(builder, "div", one, row))
        whole = call(builder, "add", whole, product(builder, outside, vh))
    if of_v is not None and columns > rows:
        outside = times(builder, _outside(builder, v, of_v), call(builder, "div", one, row))
        whole = call(builder, "add", whole, product(builder, u, outside, False, True))
    return (whole,)


def _turning(builder: Builder, factors: int, vectors: int, seed: int) -> int:
    across = product(builder, vectors, seed, True)
    return times(builder, factors, call(builder, "sub", across, turned(builder, across)))


def _outside(builder: Builder, vectors: int, seed: int) -> int:
    """What of the seed is orthogonal to the vectors."""
    inside = product(builder, vectors, product(builder, vectors, seed, True))
    return call(builder, "sub", seed, inside)


EIGH: Final[Operator] = matrix_operator(
    "eigh",
    (),
    _eigh_shapes,
    _eigh_run,
    lambda inputs, given: 9 * inputs[0].shape[-1] ** 3,
    _eigh_bounds,
    (
        sample("plain", dominant(5, 5)),
        sample("batch", dominant(2, 3, 4, 4)),
        sample("indefinite", normal(4, 4)),
        sample("empty", normal(0, 3, 3)),
        sample("size_1", normal(1, 1)),
        sample("strided", strided(dominant(3, 3))),
        sample("special", broken(dominant(3, 3, 3))),
        sample("larger", dominant(40, 40)),
    ),
    "Eigenvectors, as columns of length 1, and the rising eigenvalues of the symmetric part "
    "(A + A^T) / 2. Of the components of a vector that have at least 3/8 of the largest magnitude, "
    "the first is positive.",
    _eigh_grad,
)

SVD: Final[Operator] = matrix_operator(
    "svd",
    (),
    _svd_shapes,
    _svd_run,
    lambda inputs, given: 14 * max(inputs[0].shape[-2:]) * min(inputs[0].shape[-2:]) ** 2,
    _svd_bounds,
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
        sample("larger", ramp(40, 38)),
    ),
    "A = U diag(s) V with the falling singular values s, as many as the smaller extent of A. Of "
    "the components of a column of U that have at least 3/8 of the largest magnitude, the first is "
    "positive. Outputs: U, s, V (the right vectors are its rows).",
    _svd_grad,
)

OPERATORS: Final = (EIGH, SVD)
