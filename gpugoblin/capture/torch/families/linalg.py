"""Factorizations and solvers. Owns: those ATen operators.

torch's codes of success are zeros here: what fails is NaN in the catalog, and an error in torch.
"""

from __future__ import annotations

from typing import Any

from gpugoblin.capture.torch.context import Context, Unsupported
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value

__all__: list[str] = []


def _fine(c: Context, x: Value) -> Value:
    return c.filled(c.shape(x)[:-2], 0, "int32")


def _transposed(c: Context, x: Value) -> Value:
    rank = len(c.shape(x))
    return c.permute(x, (*range(rank - 2), rank - 1, rank - 2))


def _same_batch(c: Context, *values: Value) -> list[Value]:
    batch = c.broadcast_shapes(*(c.shape(one)[:-2] for one in values))
    return [c.spread(one, (*batch, *c.shape(one)[-2:])) for one in values]


@aten("_linalg_solve_ex")
def solve(
    c: Context, a: Value, b: Value, left: bool = True, check_errors: bool = False
) -> tuple[Value | None, ...]:
    line = len(c.shape(b)) == 1 or (
        len(c.shape(b)) == len(c.shape(a)) - 1 and c.shape(b) == c.shape(a)[:-1]
    )
    columns = c.reshape(b, (*c.shape(b), 1)) if line else b
    if not left:
        columns = _transposed(c, columns)
    matrix, columns = _same_batch(c, a, columns)
    found = c.op("solve", [matrix, columns], transpose=not left)
    if not left:
        found = _transposed(c, found)
    shape = c.shape(found)
    return (c.reshape(found, shape[:-1]) if line else found), None, None, _fine(c, a)


@aten("linalg_inv_ex")
def inverse(c: Context, a: Value, check_errors: bool = False) -> tuple[Value, Value]:
    return c.op("inverse", [a]), _fine(c, a)


@aten("_linalg_det")
def det(c: Context, a: Value) -> tuple[Value | None, ...]:
    return c.op("det", [a]), None, None


@aten("_linalg_slogdet")
def slogdet(c: Context, a: Value) -> tuple[Value | None, ...]:
    sign, size = c.ops("slogdet", [a])
    return sign, size, None, None


@aten("linalg_cholesky_ex")
def cholesky_ex(
    c: Context, a: Value, upper: bool = False, check_errors: bool = False
) -> tuple[Value, Value]:
    return cholesky(c, a, upper), _fine(c, a)


@aten("cholesky")
def cholesky(c: Context, a: Value, upper: bool = False) -> Value:
    found = c.op("cholesky", [a])
    return _transposed(c, found) if upper else found


@aten("linalg_solve_triangular")
def solve_triangular(
    c: Context, a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    columns = b if left else _transposed(c, b)
    matrix, columns = _same_batch(c, a, columns)
    found = c.op(
        "triangular_solve",
        [matrix, columns],
        lower=not upper,
        transpose=not left,
        unit_diagonal=unitriangular,
    )
    return found if left else _transposed(c, found)


@aten("triangular_solve")
def triangular_solve(
    c: Context, b: Value, a: Value, upper: bool = True, transpose: bool = False, unit: bool = False
) -> tuple[Value, Value]:
    matrix, columns = _same_batch(c, a, b)
    given = {"lower": not upper, "transpose": transpose, "unit_diagonal": unit}
    return c.op("triangular_solve", [matrix, columns], **given), a


@aten("cholesky_solve")
def cholesky_solve(c: Context, b: Value, factor: Value, upper: bool = False) -> Value:
    matrix, columns = _same_batch(c, factor, b)
    given = {"lower": not upper, "unit_diagonal": False}
    half = c.op("triangular_solve", [matrix, columns], transpose=upper, **given)
    return c.op("triangular_solve", [matrix, half], transpose=not upper, **given)


@aten("linalg_qr")
def qr(c: Context, a: Value, mode: str = "reduced") -> tuple[Value, ...]:
    rows, columns = c.shape(a)[-2:]
    if mode == "complete" and rows > columns:
        raise Unsupported("qr with mode complete")
    return c.ops("qr", [a])


@aten("_linalg_eigh")
def eigh(c: Context, a: Value, uplo: str = "L", vectors: bool = True) -> tuple[Any, ...]:
    kept = _triangle_mirrored(c, a, uplo)
    columns, values = c.ops("eigh", [kept])
    return values, columns


def _triangle_mirrored(c: Context, a: Value, uplo: str) -> Value:
    """torch reads one triangle of the matrix."""
    from gpugoblin.capture.torch.families.movement import tril, triu

    keep, strict = (tril, -1) if uplo == "L" else (triu, 1)
    return c.call("add", keep(c, a, 0), _transposed(c, keep(c, a, strict)))


@aten("_linalg_svd")
def svd(
    c: Context, a: Value, full_matrices: bool = False, compute_uv: bool = True, **_: Any
) -> tuple[Value, ...]:
    rows, columns = c.shape(a)[-2:]
    if full_matrices and rows != columns and compute_uv:
        raise Unsupported("svd with full_matrices=True of a matrix that is not square")
    return c.ops("svd", [a])


@aten("linalg_lu_solve")
def lu_solve(c: Context, factors: Value, order: Value, b: Value, **_: Any) -> Value:
    raise Unsupported("the pivots of torch's lu, which the catalog has as an order of rows")
