"""The operator `matmul`: batched matrix products. Owns: its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.rounding import (
    MATMUL_BLOCK,
    chain,
    finite_part,
    format_of,
    gamma,
    guard_overflow,
)
from gpugoblin.catalog.rules import bool_attribute, moved, require_rank, same_dtype, shapes_error
from gpugoblin.catalog.samples import ints, normal, sample, special, strided
from gpugoblin.catalog.spec import (
    NUMBERS,
    Array,
    Attribute,
    Attributes,
    Builder,
    Cost,
    Operator,
    Split,
    TensorSpec,
    Tolerance,
)

__all__ = ["MATMUL", "OPERATORS"]


def _axes(rank: int, transposed: bool) -> tuple[int, int]:
    """The axes of (rows, columns) of an operand as the product sees it."""
    return (rank - 1, rank - 2) if transposed else (rank - 2, rank - 1)


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    a, b = inputs
    dtype = same_dtype("matmul", inputs, NUMBERS)
    require_rank("matmul", a, 2)
    require_rank("matmul", b, 2)
    if a.shape[:-2] != b.shape[:-2]:
        raise shapes_error("matmul", inputs, "the batch extents must be equal")
    rows, inner = _axes(a.rank, bool_attribute(attributes, "transpose_a"))
    inner_b, columns = _axes(b.rank, bool_attribute(attributes, "transpose_b"))
    if a.shape[inner] != b.shape[inner_b]:
        raise shapes_error("matmul", inputs, "the inner extents must be equal")
    return (TensorSpec(dtype, (*a.shape[:-2], a.shape[rows], b.shape[columns])),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    _, inner = _axes(inputs[0].rank, bool_attribute(attributes, "transpose_a"))
    return moved(inputs, outputs, 2 * outputs[0].count * inputs[0].shape[inner])


def _seen(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, Array]:
    a, b = inputs
    if bool_attribute(attributes, "transpose_a"):
        a = np.swapaxes(a, -1, -2)
    if bool_attribute(attributes, "transpose_b"):
        b = np.swapaxes(b, -1, -2)
    return a, b


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    a, b = _seen(inputs, attributes)
    with np.errstate(all="ignore"):
        if a.dtype.kind == "f":
            wide = np.matmul(a.astype(np.float64), b.astype(np.float64))
            return (wide.astype(a.dtype),)
        return (np.matmul(a, b),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    rank = inputs[0].rank
    rows, inner = _axes(rank, bool_attribute(attributes, "transpose_a"))
    inner_b, columns = _axes(rank, bool_attribute(attributes, "transpose_b"))
    return (
        *(Split(f"b{axis}", "parallel", (axis, axis), axis) for axis in range(rank - 2)),
        Split("m", "parallel", (rows, None), rank - 2),
        Split("n", "parallel", (None, columns), rank - 1),
        Split("k", "sum", (inner, inner_b), None, combine="add"),
    )


def _lengths(a: Array, b: Array) -> tuple[Array, Array]:
    """Euclidean lengths of rows and columns: their product bounds a sum of |a||b| (Cauchy)."""
    return (
        np.sqrt(np.einsum("...mk,...mk->...m", a, a))[..., :, None],
        np.sqrt(np.einsum("...kn,...kn->...n", b, b))[..., None, :],
    )


def _errors(
    inputs: Sequence[Array], errors: Sequence[Array | None], attributes: Attributes
) -> Array | None:
    """gamma(chain(k)) |A||B|, with the sums of absolute products bounded by Cauchy's inequality so
    that the bound costs no second product, plus what the errors of the operands carry over."""
    a, b = _seen(inputs, attributes)
    floating = a.dtype.kind == "f"
    if not floating and all(error is None for error in errors):
        return None
    full = [
        np.broadcast_to(0.0 if error is None else error, array.shape)
        for error, array in zip(errors, inputs, strict=True)
    ]
    moved_a, moved_b = _seen(full, attributes)
    inner = a.shape[-1]
    with np.errstate(all="ignore"):
        rows, columns = _lengths(finite_part(a), finite_part(b))
        loose_rows, loose_columns = _lengths(moved_a, moved_b)
        carried = rows * loose_columns + loose_rows * columns + loose_rows * loose_columns
        carried = np.where(np.isnan(carried), np.inf, carried)
        size = rows * columns + carried
        if not floating:
            return np.where(size >= 2.0 ** min(52, 8 * a.dtype.itemsize - 1), np.inf, carried)
        # Operands and products below 2^-126 may be flushed.
        form = format_of(inputs)
        flush = form.tiny * (inner + np.sqrt(inner) * (rows + columns))
        own = (gamma(chain(inner, MATMUL_BLOCK), form) + form.unit) * size + flush
        return guard_overflow(size, carried + own, form)


def _absolute(inputs: Sequence[Array], attributes: Attributes) -> Array | float:
    error = _errors(inputs, (None, None), attributes)
    return 0.0 if error is None else error


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    return (_errors(inputs, errors, attributes),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """For C = A B: G B^T and A^T G, each in the layout that its operand has."""
    (seed,) = seeds
    if seed is None:
        return None, None
    a, b = inputs
    across = bool_attribute(attributes, "transpose_a"), bool_attribute(attributes, "transpose_b")

    def product(left: int, right: int, turn_left: bool, turn_right: bool) -> int:
        return builder.add("matmul", [left, right], transpose_a=turn_left, transpose_b=turn_right)

    if across[0]:
        by_a = product(b, seed, across[1], True)
    else:
        by_a = product(seed, b, False, not across[1])
    if across[1]:
        by_b = product(seed, a, True, across[0])
    else:
        by_b = product(a, seed, not across[0], False)
    return by_a, by_b


MATMUL: Final = Operator(
    name="matmul",
    version=1,
    arity=(2, 2),
    attributes=(
        Attribute("transpose_a", "bool", required=False, default=False),
        Attribute("transpose_b", "bool", required=False, default=False),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(absolute=_absolute, propagate=_propagate),
    samples=(
        sample("plain", normal(5, 7), normal(7, 3)),
        sample("transposed", normal(7, 5), normal(3, 7), transpose_a=True, transpose_b=True),
        sample("batch", normal(2, 3, 4, 5), normal(2, 3, 6, 5), transpose_b=True),
        sample("empty_inner", normal(2, 0), normal(0, 3)),
        sample("empty_rows", normal(0, 4), normal(4, 3)),
        sample("size_1", normal(1, 1), normal(1, 1)),
        sample("strided", strided(normal(6, 4)), strided(normal(4, 6))),
        sample("special", special(4, 4), special(4, 4)),
        sample("long", normal(2, 700), normal(700, 2, scale=100.0)),
        sample("wrap", ints(3, 4, low=2**30, high=2**31 - 1), ints(4, 3)),
        sample("int64", ints(3, 4, dtype="int64"), ints(4, 3, dtype="int64")),
    ),
    summary="Products of the last two axes; the batch axes before them must be equal. Either "
    "operand may be read transposed. Integers wrap.",
    grad=_grad,
)

OPERATORS: Final = (MATMUL,)
