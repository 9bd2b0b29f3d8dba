"""`a @ b`: NumPy's rules for vectors, batches and transposed operands.

Owns: those rules; the product itself is one operator of the catalog. A transposed operand is read
in place, never copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpugoblin.capture.applying import apply, describe, refused
from gpugoblin.capture.caller import Place
from gpugoblin.capture.dtypes import promote
from gpugoblin.capture.elementwise import cast, elementwise
from gpugoblin.capture.expression import Value
from gpugoblin.capture.shaping import broadcast_to, permute, reshape, transpose_last
from gpugoblin.errors import CaptureError

__all__ = ["contract", "matmul"]

Axes = tuple[Sequence[int], Sequence[int]]


def matmul(left: Value, right: Value, place: Place) -> Value:
    """The product over the last axis of `left` and the last but one of `right`.

    Vectors are rows on the left and columns on the right; leading axes are batches and broadcast.

    Raises:
        CaptureError: `dtypes_mixed`, `shapes_differ`, `argument_refused`.
    """
    dtype = promote("matmul", (left.spec.dtype, right.spec.dtype), describe([left, right]), place)
    if dtype == "bool":
        raise refused(
            "matmul",
            [left, right],
            "it takes numbers",
            'Convert both: .astype("float32").',
            place,
        )
    _require_inner(left, right, place)
    row, column = left.spec.rank == 1, right.spec.rank == 1
    a, b = cast(left, dtype, place), cast(right, dtype, place)
    if row:
        a = reshape(a, (1, a.spec.count), place)
    if column:
        b = reshape(b, (b.spec.count, 1), place)
    product = _batched(a, b, place)
    *batch, rows, columns = product.spec.shape
    kept = (*([] if row else [rows]), *([] if column else [columns]))
    return reshape(product, (*batch, *kept), place)


def contract(left: Value, right: Value, summed: Axes, batch: Axes, place: Place) -> Value:
    """Products summed over pairs of axes: the batch axes, then what is left of each side.

    Args:
        summed: axes of `left` and of `right`, pair by pair of equal extent, from 0.
        batch: the same for axes over which the products run together.

    Raises:
        CaptureError: `shapes_differ`, `dtypes_mixed`, `argument_refused`.
    """
    for mine, theirs in (*zip(*summed, strict=True), *zip(*batch, strict=True)):
        one, other = left.spec.shape[mine], right.spec.shape[theirs]
        if one != other:
            raise _differ(left, right, f"axes {mine} and {theirs} are {one} and {other}", place)
    kept = [
        [axis for axis in range(value.spec.rank) if axis not in (*over, *along)]
        for value, over, along in zip((left, right), summed, batch, strict=True)
    ]
    a = permute(left, (*batch[0], *kept[0], *summed[0]), place)
    b = permute(right, (*batch[1], *summed[1], *kept[1]), place)
    shapes = [left.spec.shape, right.spec.shape]
    common = tuple(shapes[0][axis] for axis in batch[0])
    rows, columns = ([shapes[n][axis] for axis in kept[n]] for n in (0, 1))
    inner = math.prod(shapes[0][axis] for axis in summed[0])
    dtype = promote("matmul", (left.spec.dtype, right.spec.dtype), describe([left, right]), place)
    if not summed[0] and dtype != "bool":
        a = reshape(cast(a, dtype, place), (*common, *rows, *(1 for _ in columns)), place)
        b = reshape(cast(b, dtype, place), (*common, *(1 for _ in rows), *columns), place)
        return elementwise("mul", (a, b), place)
    a = reshape(a, (*common, math.prod(rows), inner), place)
    b = _columns(right, b, (*common, inner, math.prod(columns)), summed[1], batch[1], place)
    return reshape(matmul(a, b, place), (*common, *rows, *columns), place)


def _columns(
    right: Value, turned: Value, shape: tuple[int, ...], summed: Sequence[int],
    batch: Sequence[int], place: Place,
) -> Value:  # fmt: skip
    """The right operand as [batch, inner, columns]: read in place, turned, where its summed axes
    come last anyway."""
    rank = right.spec.rank
    last = tuple(range(rank - len(summed), rank))
    if tuple(batch) == tuple(range(len(batch))) and tuple(summed) == last and shape[-1] != 1:
        plain = reshape(right, (*shape[:-2], shape[-1], shape[-2]), place)
        return transpose_last(plain, place)
    return reshape(turned, shape, place)


def _batched(a: Value, b: Value, place: Place) -> Value:
    batch = _batch(a, b, place)
    a, transpose_a = _untransposed(broadcast_to(a, (*batch, *a.spec.shape[-2:]), place))
    b, transpose_b = _untransposed(broadcast_to(b, (*batch, *b.spec.shape[-2:]), place))
    node = apply("matmul", [a, b], place, transpose_a=transpose_a, transpose_b=transpose_b)
    return Value(node, 0)


def _untransposed(value: Value) -> tuple[Value, bool]:
    """The operand beneath an exchange of the last two axes, and whether there was one."""
    if value.node.operator == "permute":
        rank = value.spec.rank
        if value.node.attributes["axes"] == (*range(rank - 2), rank - 1, rank - 2):
            return value.node.operands[0], True
    return value, False


def _batch(a: Value, b: Value, place: Place) -> tuple[int, ...]:
    first, second = a.spec.shape[:-2], b.spec.shape[:-2]
    rank = max(len(first), len(second))
    batch: list[int] = []
    for x, y in zip(
        (1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True
    ):
        if x != y and 1 not in (x, y):
            raise _differ(a, b, f"the batch extents {x} and {y} do not broadcast", place)
        batch.append(y if x == 1 else x)
    return tuple(batch)


def _require_inner(left: Value, right: Value, place: Place) -> None:
    if not left.spec.rank or not right.spec.rank:
        raise refused(
            "matmul", [left, right], "a 0-d array has no axis to sum over", "Use *.", place
        )
    inner = left.spec.shape[-1]
    other = right.spec.shape[max(-2, -right.spec.rank)]
    if inner != other:
        raise _differ(left, right, f"the inner extents are {inner} and {other}", place)


def _differ(left: Value, right: Value, cause: str, place: Place) -> CaptureError:
    return CaptureError(
        "shapes_differ",
        line=place,
        operator="matmul",
        operands=describe([left, right]),
        cause=cause,
        fix="Transpose one side (a @ b.T), or reshape it.",
    )
