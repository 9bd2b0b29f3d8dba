"""The operator `searchsorted`: where values belong among sorted ones. Owns: its declaration.

It is defined as a count, so that it means the same on every backend when the first input is not
sorted: a backend sorts it, or sees that it is sorted, before it searches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from gpugoblin.catalog.rounding import with_flush
from gpugoblin.catalog.rules import (
    bool_attribute,
    moved,
    require_rank,
    same_dtype,
    shapes_error,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided
from gpugoblin.catalog.spec import (
    NUMBERS,
    Array,
    Attribute,
    Attributes,
    Cost,
    Operator,
    Split,
    TensorSpec,
    Tolerance,
)

__all__ = ["OPERATORS", "SEARCHSORTED"]


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    ranks, values = inputs
    same_dtype("searchsorted", inputs, NUMBERS)
    require_rank("searchsorted", ranks, 1)
    if ranks.rank > 1 and ranks.shape[:-1] != values.shape[:-1]:
        raise shapes_error("searchsorted", inputs, "all axes but the last must agree")
    return (TensorSpec("int64", values.shape),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    steps = max(1, inputs[0].shape[-1].bit_length())
    scratch = 2 * inputs[0].nbytes + inputs[1].nbytes + 8 * inputs[1].count
    return moved(inputs, outputs, steps * (inputs[0].count + inputs[1].count), scratch)


def _count(ranks: Array, values: Array, right: bool) -> Array:
    side: Literal["left", "right"] = "right" if right else "left"
    ordered = np.sort(ranks, axis=-1)
    if ranks.ndim == 1:
        return np.searchsorted(ordered, values, side).astype(np.int64)
    found = np.empty(values.shape, np.int64)
    for place in np.ndindex(values.shape[:-1]):
        found[place] = np.searchsorted(ordered[place], values[place], side)
    return found


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    ranks, values = inputs
    return (np.asarray(_count(ranks, values, bool_attribute(attributes, "right"))),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    ranks, values = inputs
    last = values.rank - 1
    if ranks.rank == 1:
        return (
            Split("s", "whole", (0, None), None),
            *(Split(f"v{axis}", "parallel", (None, axis), axis) for axis in range(values.rank)),
        )
    return (
        *(Split(f"b{axis}", "parallel", (axis, axis), axis) for axis in range(last)),
        Split("s", "whole", (ranks.rank - 1, None), None),
        Split("v", "parallel", (None, last), last),
    )


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """The count is open by the elements that are nearer to the value than the errors."""
    ranks, values = inputs
    loose = [with_flush(array, error) for array, error in zip(inputs, errors, strict=True)]
    if all(error is None for error in loose):
        return (None,)
    widest = np.zeros(()) if loose[0] is None else np.max(loose[0], axis=-1, initial=0.0)
    if np.ndim(widest) and ranks.ndim > 1:
        widest = widest[..., None]
    reach = np.asarray((0.0 if loose[1] is None else loose[1]) + widest)
    wide, sought = ranks.astype(np.float64), values.astype(np.float64)
    with np.errstate(all="ignore"):
        low = _count(wide, np.broadcast_to(sought - reach, values.shape), False)
        high = _count(wide, np.broadcast_to(sought + reach, values.shape), True)
        error = np.maximum(high - outputs[0], outputs[0] - low).astype(np.float64)
        return (np.where(np.isnan(reach) | np.isinf(reach), float(ranks.shape[-1]), error),)


SEARCHSORTED: Final = Operator(
    name="searchsorted",
    version=1,
    arity=(2, 2),
    attributes=(Attribute("right", "bool", required=False, default=False),),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("line", normal(20), normal(3, 4)),
        sample("right", ints(30), ints(9), right=True),
        sample("left", ints(30), ints(9)),
        sample("batch", normal(2, 3, 9), normal(2, 3, 4)),
        sample("scalar", normal(5), normal()),
        sample("empty", normal(0), normal(3)),
        sample("nothing", normal(3), normal(0)),
        sample("size_1", normal(1), normal(1), right=True),
        sample("strided", strided(normal(9)), strided(normal(2, 3))),
        sample("special", special(9), special(7)),
        sample("special_right", special(9), special(7), right=True),
        sample("int64", ints(9, dtype="int64"), ints(2, 2, dtype="int64")),
    ),
    summary="For each element of the second input, how many along the last axis of the first are "
    "less (or, with `right`, not greater): its place among them when sorted. NaN is above every "
    "number. The first input is a line, or has the second's axes but for the last.",
)

OPERATORS: Final = (SEARCHSORTED,)
