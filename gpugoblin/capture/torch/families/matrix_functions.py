"""Functions of whole matrices, from products and factorizations. Owns: those ATen operators."""

from __future__ import annotations

from typing import Any, Final

from gpugoblin.capture.torch.context import Context
from gpugoblin.capture.torch.families.contractions import product
from gpugoblin.capture.torch.families.creation import eye
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value

__all__: list[str] = []

_TERMS: Final = 12
_MOST_HALVINGS: Final = 16


@aten("linalg_matrix_exp", "matrix_exp")
def matrix_exp(c: Context, a: Value) -> Value:
    """Taylor's sum of the matrix halved until its norm is at most 1/2, squared as often.

    The number of halvings is the data's: all are written out, and those that are not needed are
    passed over. Norms up to 2^15 are right; above, the result is not finite in float32 anyway.
    """
    rank = len(c.shape(a))
    axes = (rank - 2, rank - 1)
    norm = c.reduce("max", c.reduce("sum", c.call("abs", a), axes[:1], keepdims=True), axes,
                    keepdims=True)  # fmt: skip
    norm = c.stopped(norm)
    two, one = c.number(2.0, c.dtype(a)), c.number(1.0, c.dtype(a))
    least = c.number(2.0**-30, c.dtype(a))
    count = c.call("ceil", c.call("log2", c.call("mul", c.call("max", norm, least), two)))
    count = c.call("max", count, c.number(0.0, c.dtype(a)))
    small = c.call("div", a, c.call("exp2", count))
    unit = c.spread(eye(c, c.shape(a)[-1]), c.shape(a))
    found = unit
    for term in range(_TERMS, 0, -1):
        step = c.call("div", product(c, small, found), c.number(float(term), c.dtype(a)))
        found = c.call("add", unit, step)
    for place in range(_MOST_HALVINGS):
        wanted = c.call("lt", c.number(float(place), c.dtype(a)), count)
        # What is passed over must stay finite, as infinity times a derivative of 0 is NaN.
        base = c.call("where", wanted, found, unit)
        found = c.call("where", wanted, product(c, base, base), found)
    del one
    return found


@aten("linalg_pinv")
def pinv(c: Context, a: Value, *given: Any, hermitian: bool = False, **named: Any) -> Value:
    """By singular values; those under the cutoff, relative to the largest, count as 0."""
    rows, columns = c.shape(a)[-2:]
    left, sizes, right = c.ops("svd", [a])
    rank = len(c.shape(a))
    largest = c.reduce("max", sizes, (rank - 2,), keepdims=True)
    absolute = _cutoff(c, named.get("atol"), 0.0, c.dtype(a))
    relative = _cutoff(c, named.get("rtol"), max(rows, columns) * 2.0**-23, c.dtype(a))
    cut = c.call("max", absolute, c.call("mul", largest, relative))
    zero, one = c.number(0.0, c.dtype(a)), c.number(1.0, c.dtype(a))
    kept = c.call("gt", sizes, cut)
    inverse = c.call("where", kept, c.call("recip", c.call("where", kept, sizes, one)), zero)
    turn = (*range(rank - 2), rank - 1, rank - 2)
    scaled = c.call(
        "mul", c.permute(right, turn), c.reshape(inverse, (*c.shape(inverse)[:-1], 1,
                                                           c.shape(inverse)[-1]))
    )  # fmt: skip
    return product(c, scaled, c.permute(left, turn))  # type: ignore[no-any-return]


def _cutoff(c: Context, given: Any, otherwise: float, dtype: str) -> Value:
    if isinstance(given, Value):
        return c.cast(given, dtype)
    return c.number(otherwise if given is None else float(given), dtype)


@aten("cholesky_inverse")
def cholesky_inverse(c: Context, factor: Value, upper: bool = False) -> Value:
    from gpugoblin.capture.torch.families.linalg import cholesky_solve

    unit = c.spread(eye(c, c.shape(factor)[-1]), c.shape(factor))
    return cholesky_solve(c, unit, factor, upper)
