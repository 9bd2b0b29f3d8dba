"""solve and triangular_solve: linear systems. Owns: their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.building import call
from gpugoblin.catalog.matrices import (
    backward_error,
    matrix_operator,
    require_square,
    smallest_singular,
)
from gpugoblin.catalog.matrix_building import product, triangle
from gpugoblin.catalog.matrix_samples import broken, dominant
from gpugoblin.catalog.rounding import Format
from gpugoblin.catalog.rules import bool_attribute, shapes_error
from gpugoblin.catalog.samples import normal, sample, strided
from gpugoblin.catalog.spec import (
    Array,
    Attribute,
    Attributes,
    Builder,
    Operator,
    TensorSpec,
)

__all__ = ["OPERATORS", "solve_lower", "triangular_solution"]

_BLOCK: Final = 64


def _shapes(name: str, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    extent = require_square(name, inputs)
    if inputs[1].shape[-2] != extent:
        raise shapes_error(name, inputs, f"right sides of {extent} rows are wanted")
    return (inputs[1],)


def _cube(inputs: Sequence[TensorSpec]) -> float:
    extent = inputs[0].shape[-1]
    return 2 * extent**3 / 3 + 2 * extent * extent * inputs[1].shape[-1]


def _square(inputs: Sequence[TensorSpec]) -> float:
    return inputs[0].shape[-1] * inputs[1].count / max(1, _batch(inputs))


def _batch(inputs: Sequence[TensorSpec]) -> int:
    return int(np.prod(inputs[0].shape[:-2], dtype=np.int64))


def solve_lower(matrices: Array, right: Array) -> Array:
    """L^-1 B for lower triangles, by substitution in blocks of rows. Batches of equal extents."""
    result = right.copy()
    extent = matrices.shape[-1]
    for start in range(0, extent, _BLOCK):
        stop = min(start + _BLOCK, extent)
        if start:
            result[:, start:stop] -= matrices[:, start:stop, :start] @ result[:, :start]
        for row in range(start, stop):
            before = matrices[:, row, None, start:row] @ result[:, start:row]
            result[:, row] -= before[:, 0]
            result[:, row] /= matrices[:, row, row, None]
    return result


def triangular_solution(matrices: Array, right: Array, attributes: Attributes) -> Array:
    """The solution in the precision of the operands; a zero on the diagonal makes NaN of the whole
    matrix."""
    lower = bool_attribute(attributes, "lower")
    seen = _seen(matrices, attributes)
    if bool_attribute(attributes, "transpose"):
        seen, lower = np.swapaxes(seen, -1, -2), not lower
    if lower:
        found = solve_lower(seen, right)
    else:
        found = solve_lower(seen[:, ::-1, ::-1], right[:, ::-1])[:, ::-1]
    singular = (np.diagonal(seen, axis1=-2, axis2=-1) == 0).any(-1)
    return np.where(singular[:, None, None], np.nan, found)


def _seen(matrices: Array, attributes: Attributes) -> Array:
    """The triangle that is read, in full matrices."""
    unit = bool_attribute(attributes, "unit_diagonal")
    cut = np.tril if bool_attribute(attributes, "lower") else np.triu
    step = (1 if cut is np.triu else -1) if unit else 0
    found = cut(matrices, step)
    return found + np.eye(matrices.shape[-1]) if unit else np.asarray(found)


def _run(operands: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    a, b = operands
    if bool_attribute(attributes, "transpose"):
        a = np.swapaxes(a, -1, -2)
    return (np.linalg.solve(a, b),)


def _run_triangular(operands: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    matrices, right = operands
    return (triangular_solution(matrices, right, attributes),)


def _error(a: Array, of_a: Array, of_b: Array, x: Array, form: Format) -> Array:
    """For (A + E) X = B + F: the difference is A^-1 (F - E X'), and X' is at most X / (1 - r) with
    r = |A^-1| |E| (Higham, theorem 7.2). By rows of the inverse and by columns of X, both by their
    lengths; anything where r is 1/2 or more."""
    least = smallest_singular(a)
    wrong = backward_error(a, of_a, form)
    share = wrong / least
    rows = np.empty(a.shape[:-1])
    regular = (least > 0)[:, 0, 0]
    rows[...] = np.inf
    if regular.any():
        try:
            rows[regular] = np.sqrt(np.sum(np.square(np.linalg.inv(a[regular])), axis=-1))
        except np.linalg.LinAlgError:
            return np.full(x.shape, np.inf)
    columns = np.sqrt(np.sum(np.square(x), axis=-2, keepdims=True))
    of_columns = np.sqrt(np.sum(np.square(of_b), axis=-2, keepdims=True))
    extent = a.shape[-1]
    error = rows[:, :, None] * (wrong * columns + of_columns + extent * form.tiny) / (1.0 - share)
    return np.asarray(np.where(share < 0.5, error, np.inf))


def _bounds(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    a, of_a = inputs[0], errors[0]
    if bool_attribute(given, "transpose"):
        a, of_a = np.swapaxes(a, -1, -2), np.swapaxes(of_a, -1, -2)
    return (_error(a, of_a, errors[1], outputs[0], form),)


def _bounds_triangular(
    inputs: Sequence[Array],
    errors: Sequence[Array],
    outputs: Sequence[Array],
    given: Attributes,
    form: Format,
) -> tuple[Array | None, ...]:
    a = _seen(inputs[0], given)
    of_a = _seen(errors[0], {**given, "unit_diagonal": False})
    if bool_attribute(given, "transpose"):
        a, of_a = np.swapaxes(a, -1, -2), np.swapaxes(of_a, -1, -2)
    return (_error(a, of_a, errors[1], outputs[0], form),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """For X = A^-1 B: G = A^-T X' by B, and -G X^T by A (M. B. Giles, Collected matrix derivative
    results for forward and reverse mode algorithmic differentiation, 2008, section 2.3.1)."""
    return _shares(builder, "solve", inputs, outputs[0], seeds[0], attributes)


def _shares(
    builder: Builder,
    name: str,
    inputs: Sequence[int],
    solution: int,
    seed: int | None,
    attributes: Attributes,
) -> tuple[int | None, ...]:
    if seed is None:
        return None, None
    transposed = bool_attribute(attributes, "transpose")
    back = builder.add(name, [inputs[0], seed], **{**attributes, "transpose": not transposed})
    left, right = (solution, back) if transposed else (back, solution)
    return call(builder, "neg", product(builder, left, right, False, True)), back


def _grad_triangular(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """As for `solve`, in the triangle that is read."""
    whole, right = _shares(builder, "triangular_solve", inputs, outputs[0], seeds[0], attributes)
    if whole is None:
        return None, None
    side = "lower" if bool_attribute(attributes, "lower") else "upper"
    strict = "strict_" if bool_attribute(attributes, "unit_diagonal") else ""
    return triangle(builder, whole, strict + side), right


_TRANSPOSE: Final = Attribute("transpose", "bool", required=False, default=False)

SOLVE: Final[Operator] = matrix_operator(
    "solve",
    (_TRANSPOSE,),
    lambda inputs, given: _shapes("solve", inputs),
    _run,
    lambda inputs, given: _cube(inputs),
    _bounds,
    (
        sample("plain", normal(5, 5), normal(5, 3)),
        sample("transposed", dominant(4, 4), normal(4, 2), transpose=True),
        sample("batch", dominant(2, 3, 4, 4), normal(2, 3, 4, 1)),
        sample("empty", normal(0, 3, 3), normal(0, 3, 2)),
        sample("empty_matrix", normal(0, 0), normal(0, 2)),
        sample("size_1", normal(1, 1), normal(1, 1)),
        sample("strided", strided(dominant(3, 3)), strided(normal(3, 4))),
        sample("special", broken(dominant(3, 3, 3)), normal(3, 3, 2)),
        sample("larger", dominant(70, 70), normal(70, 2)),
    ),
    "The solution X of A X = B (with `transpose`: of A^T X = B) for square matrices A and B with "
    "as many rows. All of it is NaN where A is singular, or where A or B is not finite.",
    _grad,
    arity=2,
    columns=True,
)

TRIANGULAR_SOLVE: Final[Operator] = matrix_operator(
    "triangular_solve",
    (
        Attribute("lower", "bool"),
        _TRANSPOSE,
        Attribute("unit_diagonal", "bool", required=False, default=False),
    ),
    lambda inputs, given: _shapes("triangular_solve", inputs),
    _run_triangular,
    lambda inputs, given: _square(inputs),
    _bounds_triangular,
    (
        sample("lower", dominant(5, 5), normal(5, 3), lower=True),
        sample("upper", dominant(5, 5), normal(5, 3), lower=False),
        sample("transposed", dominant(4, 4), normal(4, 2), lower=True, transpose=True),
        sample("unit", normal(4, 4), normal(4, 2), lower=False, unit_diagonal=True),
        sample("batch", dominant(2, 3, 4, 4), normal(2, 3, 4, 1), lower=True),
        sample("empty", normal(0, 3, 3), normal(0, 3, 2), lower=True),
        sample("size_1", normal(1, 1), normal(1, 1), lower=False),
        sample("strided", strided(dominant(3, 3)), strided(normal(3, 4)), lower=False),
        sample("special", broken(dominant(3, 3, 3)), normal(3, 3, 2), lower=True),
        sample("larger", dominant(70, 70), normal(70, 2), lower=False, transpose=True),
    ),
    "The solution X of T X = B (with `transpose`: of T^T X = B), where T is the lower or upper "
    "triangle of the first input, with ones on the diagonal if `unit_diagonal`. All of it is NaN "
    "where the diagonal has a zero, or where an input is not finite.",
    _grad_triangular,
    arity=2,
    columns=True,
)

OPERATORS: Final = (SOLVE, TRIANGULAR_SOLVE)
