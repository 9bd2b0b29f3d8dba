"""det and slogdet. Owns: their declarations.

They are operators of their own, though LU gives both: a determinant does not depend on the choice
of pivots, so its bound need not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.building import reshaped
from gpugoblin.catalog.matrices import backward_error, matrix_operator, require_square
from gpugoblin.catalog.matrix_building import identity, times
from gpugoblin.catalog.matrix_samples import broken, dominant
from gpugoblin.catalog.rounding import Format
from gpugoblin.catalog.samples import normal, sample, strided
from gpugoblin.catalog.spec import Array, Attributes, Builder, Operator, Sample, TensorSpec

__all__ = ["DET", "OPERATORS", "SLOGDET"]


def _numbers(name: str, count: int, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    require_square(name, inputs)
    return (TensorSpec(inputs[0].dtype, inputs[0].shape[:-2]),) * count


def _flops(inputs: Sequence[TensorSpec], given: Attributes) -> float:
    return 2 * inputs[0].shape[-1] ** 3 / 3


def _run_det(operands: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
    return (np.linalg.det(operands[0]),)


def _run_slogdet(operands: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
    sign, size = np.linalg.slogdet(operands[0])
    return sign, size


def _shares(matrices: Array, errors: Array, form: Format) -> tuple[Array, Array, Array]:
    """How far the operand may lie off, that over the smallest singular value, and the largest one.
    All of shape [count]."""
    wrong = backward_error(matrices, errors, form)[:, 0, 0]
    ends = np.zeros((2, matrices.shape[0]))
    finite = np.isfinite(matrices).all(axis=(1, 2))
    if matrices.shape[-1] and finite.any():
        values = np.linalg.svd(matrices[finite], compute_uv=False)
        noise = values[:, 0] * matrices.shape[-1] * np.finfo(np.float64).eps
        ends[:, finite] = np.maximum(values[:, -1] - noise, 0.0), values[:, 0]
    share = wrong / ends[0] if matrices.shape[-1] else np.zeros(wrong.shape)
    return wrong, share, ends[1]


def _det_bounds(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    """det(A + E) = det(A) det(I + A^-1 E), and the second is between (1 - r)^n and (1 + r)^n with
    r = |A^-1| |E|; where A is nearly singular n |E| (|A| + |E|)^(n - 1) is less (I. Ipsen and R.
    Rehman, Perturbation bounds for determinants and characteristic polynomials, SIAM J. Matrix
    Anal. Appl. 30, 2008, corollary 2.7)."""
    wrong, share, largest = _shares(inputs[0], errors[0], form)
    extent = inputs[0].shape[-1]
    near = np.abs(outputs[0]) * np.expm1(extent * np.log1p(share))
    far = extent * wrong * (largest + wrong) ** max(0, extent - 1)
    return (np.fmin(near, far),)


def _slogdet_bounds(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    """As for `det`; where the matrix may be singular, anything."""
    _, share, _ = _shares(inputs[0], errors[0], form)
    sure = share < 0.5
    size = -inputs[0].shape[-1] * np.log1p(-np.minimum(share, 0.5))
    return np.where(sure, 0.0, np.inf), np.where(sure, size, np.inf)


def _scaled_inverse(builder: Builder, value: int, scale: int) -> int:
    """scale A^-T, for a number a matrix."""
    spec = builder.spec(value)
    found = builder.add("solve", [value, identity(builder, value)], transpose=True)
    return times(builder, found, reshaped(builder, scale, (*spec.shape[:-2], 1, 1)))


def _det_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    given: Attributes,
) -> tuple[int | None, ...]:
    """det(A) A^-T (Jacobi's formula; M. B. Giles, 2008, section 2.2.4); NaN where A is singular."""
    if seeds[0] is None:
        return (None,)
    return (_scaled_inverse(builder, inputs[0], times(builder, seeds[0], outputs[0])),)


def _slogdet_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    given: Attributes,
) -> tuple[int | None, ...]:
    """A^-T by the logarithm; the sign is a step."""
    if seeds[1] is None:
        return (None,)
    return (_scaled_inverse(builder, inputs[0], seeds[1]),)


_SAMPLES: Final[tuple[Sample, ...]] = (
    sample("plain", dominant(4, 4)),
    sample("turned", normal(4, 4)),
    sample("batch", dominant(2, 3, 3, 3)),
    sample("empty", normal(0, 3, 3)),
    sample("no_rows", normal(0, 0)),
    sample("size_1", normal(1, 1)),
    sample("strided", strided(dominant(3, 3))),
    sample("special", broken(dominant(3, 3, 3))),
    sample("larger", dominant(20, 20)),
)

DET: Final[Operator] = matrix_operator(
    "det",
    (),
    lambda inputs, given: _numbers("det", 1, inputs),
    _run_det,
    _flops,
    _det_bounds,
    _SAMPLES,
    "The determinant of square matrices.",
    _det_grad,
)

SLOGDET: Final[Operator] = matrix_operator(
    "slogdet",
    (),
    lambda inputs, given: _numbers("slogdet", 2, inputs),
    _run_slogdet,
    _flops,
    _slogdet_bounds,
    _SAMPLES,
    "The sign of the determinant of square matrices, and the logarithm of its magnitude: 0 and "
    "minus infinity where a matrix is singular.",
    _slogdet_grad,
)

OPERATORS: Final = (DET, SLOGDET)
