"""grouped_matmul and grouped_outer: rows in groups, a matrix for each group, as in a mixture of
experts. Owns: their declarations.

Rows stand in the order of their groups; `sizes` says how many each group has. Rows behind the last
group belong to none. A negative size, or sizes that add up to more than there are rows, is the
error `index_out_of_range`: a wrong count must not become a wrong product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.rounding import (
    MATMUL_BLOCK,
    Format,
    chain,
    finite_part,
    format_of,
    gamma,
    guard_overflow,
)
from gpugoblin.catalog.rules import bool_attribute, moved, require_dtype, same_dtype, shapes_error
from gpugoblin.catalog.samples import Make, normal, sample, special, strided
from gpugoblin.catalog.spec import (
    FLOATS,
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
from gpugoblin.errors import GraphError

__all__ = ["GROUPED_MATMUL", "GROUPED_OUTER", "OPERATORS", "group_ranges", "wrong_sizes"]


def wrong_sizes(sizes: Array, rows: int) -> int | None:
    """The count that is wrong: a negative size, or a sum above `rows`; None where all is well."""
    if sizes.size and int(sizes.min()) < 0:
        return int(sizes.min())
    total = sum(map(int, sizes))
    return total if total > rows else None


def group_ranges(sizes: Array) -> Iterator[tuple[int, int, int]]:
    """(group, first row, end) of every group that has rows."""
    start = 0
    for group, size in enumerate(map(int, sizes)):
        if size:
            yield group, start, start + size
        start += size


def _require_sizes(operator: str, sizes: Array, rows: int) -> None:
    wrong = wrong_sizes(sizes, rows)
    if wrong is not None:
        raise GraphError("index_out_of_range", operator=operator, index=wrong, axis=0, extent=rows)


def _require(name: str, inputs: Sequence[TensorSpec], ranks: tuple[int, int]) -> None:
    same_dtype(name, inputs[:2], FLOATS)
    require_dtype(f"{name} (sizes)", inputs[2], ("int32", "int64"))
    if tuple(spec.rank for spec in inputs) != (*ranks, 1):
        wanted = ", ".join(map(str, (*ranks, 1)))
        raise shapes_error(name, inputs, f"ranks {wanted} are wanted")


def _full(array: Array, error: Array | None) -> Array:
    return np.broadcast_to(0.0 if error is None else error, array.shape)


def _lengths(array: Array, axis: int) -> Array:
    return np.asarray(np.sqrt(np.sum(np.square(array), axis=axis)))


def _within(
    length: tuple[Array, Array], loose: tuple[Array, Array], inner: int, form: Format
) -> Array:
    """As for `matmul`: gamma |a||b| by Cauchy's inequality, and what the operands' errors carry."""
    carried = length[0] * loose[1] + loose[0] * length[1] + loose[0] * loose[1]
    carried = np.where(np.isnan(carried), np.inf, carried)
    size = length[0] * length[1] + carried
    flush = form.tiny * (inner + np.sqrt(inner) * (length[0] + length[1]))
    share = gamma(chain(inner, MATMUL_BLOCK), form) + form.unit
    return guard_overflow(size, carried + share * size + flush, form)


# grouped_matmul


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    _require("grouped_matmul", inputs, (2, 3))
    rows, weights, sizes = inputs
    inner, columns = _axes(attributes)
    if weights.shape[0] != sizes.shape[0] or weights.shape[inner] != rows.shape[1]:
        raise shapes_error(
            "grouped_matmul", inputs, "one matrix a group, with as many rows as there are columns"
        )
    return (TensorSpec(rows.dtype, (rows.shape[0], weights.shape[columns])),)


def _axes(attributes: Attributes) -> tuple[int, int]:
    return (2, 1) if bool_attribute(attributes, "transpose") else (1, 2)


def _seen(weights: Array, attributes: Attributes) -> Array:
    return np.swapaxes(weights, 1, 2) if bool_attribute(attributes, "transpose") else weights


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    return moved(inputs, outputs, 2 * outputs[0].count * inputs[0].shape[1])


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    rows, weights, sizes = inputs
    _require_sizes("grouped_matmul", sizes, rows.shape[0])
    seen = _seen(weights, attributes).astype(np.float64)
    found = np.zeros((rows.shape[0], seen.shape[2]))
    with np.errstate(all="ignore"):
        for group, start, stop in group_ranges(sizes):
            found[start:stop] = rows[start:stop].astype(np.float64) @ seen[group]
        return (found.astype(rows.dtype),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    inner, columns = _axes(attributes)
    return (
        Split("m", "whole", (0, None, None), 0),
        Split("g", "whole", (None, 0, 0), None),
        Split("k", "sum", (1, inner, None), None, combine="add"),
        Split("n", "parallel", (None, columns, None), 1),
    )


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    if errors[2] is not None and np.any(errors[2] > 0):
        return (np.full(outputs[0].shape, np.inf),)
    rows, weights, sizes = inputs
    found = np.zeros(outputs[0].shape)
    seen = _seen(finite_part(weights), attributes)
    of_seen = _seen(_full(weights, errors[1]), attributes)
    loose = _full(rows, errors[0])
    inner = rows.shape[1]
    with np.errstate(all="ignore"):
        for group, start, stop in group_ranges(sizes):
            length = _lengths(finite_part(rows[start:stop]), 1)[:, None], _lengths(seen[group], 0)
            carried = _lengths(loose[start:stop], 1)[:, None], _lengths(of_seen[group], 0)
            found[start:stop] = _within(length, carried, inner, format_of(inputs))
    return (found,)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """In each group those of a product: G B^T and A^T G."""
    (seed,) = seeds
    rows, weights, sizes = inputs
    if seed is None:
        return None, None, None
    turned = bool_attribute(attributes, "transpose")
    by_rows = builder.add("grouped_matmul", [seed, weights, sizes], transpose=not turned)
    sides = [seed, rows, sizes] if turned else [rows, seed, sizes]
    return by_rows, builder.add("grouped_outer", sides), None


# grouped_outer


def _outer_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    _require("grouped_outer", inputs, (2, 2))
    left, right, sizes = inputs
    if left.shape[0] != right.shape[0]:
        raise shapes_error("grouped_outer", inputs, "both must have as many rows")
    return (TensorSpec(left.dtype, (sizes.shape[0], left.shape[1], right.shape[1])),)


def _outer_cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    return moved(inputs, outputs, 2 * inputs[0].count * inputs[1].shape[1])


def _outer_reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    left, right, sizes = inputs
    _require_sizes("grouped_outer", sizes, left.shape[0])
    found = np.zeros((sizes.shape[0], left.shape[1], right.shape[1]))
    with np.errstate(all="ignore"):
        for group, start, stop in group_ranges(sizes):
            wide = left[start:stop].astype(np.float64), right[start:stop].astype(np.float64)
            found[group] = wide[0].T @ wide[1]
        return (found.astype(left.dtype),)


def _outer_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    return (
        Split("g", "whole", (None, None, 0), 0),
        Split("m", "whole", (0, 0, None), None),
        Split("k", "parallel", (1, None, None), 1),
        Split("n", "parallel", (None, 1, None), 2),
    )


def _outer_propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    if errors[2] is not None and np.any(errors[2] > 0):
        return (np.full(outputs[0].shape, np.inf),)
    left, right, sizes = inputs
    loose = _full(left, errors[0]), _full(right, errors[1])
    found = np.zeros(outputs[0].shape)
    with np.errstate(all="ignore"):
        for group, start, stop in group_ranges(sizes):
            part = slice(start, stop)
            length = (
                _lengths(finite_part(left[part]), 0)[:, None],
                _lengths(finite_part(right[part]), 0),
            )
            carried = _lengths(loose[0][part], 0)[:, None], _lengths(loose[1][part], 0)
            count = stop - start
            found[group] = _within(length, carried, count, format_of(inputs))
    return (found,)


def _outer_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """For A^T B in each group: B G^T and A G."""
    (seed,) = seeds
    left, right, sizes = inputs
    if seed is None:
        return None, None, None
    by_left = builder.add("grouped_matmul", [right, seed, sizes], transpose=True)
    return by_left, builder.add("grouped_matmul", [left, seed, sizes], transpose=False), None


def _sizes(*counts: int, dtype: str = "int64") -> Make:
    return lambda generator: np.array(counts, dtype)


GROUPED_MATMUL: Final = Operator(
    name="grouped_matmul",
    version=1,
    arity=(3, 3),
    attributes=(Attribute("transpose", "bool", required=False, default=False),),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("plain", normal(7, 4), normal(3, 4, 5), _sizes(2, 0, 5)),
        sample("some_in_none", normal(6, 3), normal(2, 3, 2), _sizes(1, 3, dtype="int32")),
        sample("transposed", normal(5, 4), normal(2, 3, 4), _sizes(3, 2), transpose=True),
        sample("empty", normal(0, 4), normal(2, 4, 3), _sizes(0, 0)),
        sample("no_groups", normal(3, 4), normal(0, 4, 2), _sizes()),
        sample("size_1", normal(1, 1), normal(1, 1, 1), _sizes(1)),
        sample("strided", strided(normal(5, 4)), strided(normal(2, 4, 3)), _sizes(2, 3)),
        sample("special", special(6, 4), special(2, 4, 3), _sizes(4, 2)),
        sample("long", normal(3, 700), normal(2, 700, 2, scale=100.0), _sizes(1, 2)),
    ),
    summary="Rows times the matrix of their group: rows [m, k] in the order of the groups, "
    "matrices [g, k, n] (with `transpose` [g, n, k]), and the int32 or int64 sizes of the groups. "
    "Rows behind the last group give 0. Sizes that are negative or too large are an error.",
    grad=_grad,
)

GROUPED_OUTER: Final = Operator(
    name="grouped_outer",
    version=1,
    arity=(3, 3),
    attributes=(),
    infer=_outer_infer,
    cost=_outer_cost,
    reference=_outer_reference,
    splits=_outer_splits,
    tolerance=Tolerance(propagate=_outer_propagate),
    samples=(
        sample("plain", normal(7, 4), normal(7, 5), _sizes(2, 0, 5)),
        sample("some_in_none", normal(6, 3), normal(6, 2), _sizes(1, 3, dtype="int32")),
        sample("empty", normal(0, 4), normal(0, 3), _sizes(0, 0)),
        sample("size_1", normal(1, 1), normal(1, 1), _sizes(1)),
        sample("strided", strided(normal(5, 4)), strided(normal(5, 3)), _sizes(2, 3)),
        sample("special", special(6, 4), special(6, 3), _sizes(4, 2)),
        sample("long", normal(900, 2), normal(900, 2, scale=100.0), _sizes(700, 200)),
    ),
    summary="The product A^T B of the rows of each group: rows [m, k] and [m, n] in the order of "
    "the groups and their int32 or int64 sizes give [g, k, n], 0 for a group without rows. Sizes "
    "that are negative or too large are an error.",
    grad=_outer_grad,
)

OPERATORS: Final = (GROUPED_MATMUL, GROUPED_OUTER)
