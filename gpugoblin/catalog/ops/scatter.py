"""The operator `scatter`: elements put at indices along one axis. Owns: its declaration.

The order is part of the meaning: updates are applied one after the other in C order of the indices.
So `set` keeps the last one, and `add` has one order of additions, which every backend keeps for
class `exact`. Indices out of range are an error, as for `gather`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from gpugoblin.catalog.building import call, filled, number, reshaped, spread
from gpugoblin.catalog.ops.gather import require_indices
from gpugoblin.catalog.rounding import finite_part, format_of, guard_overflow, with_flush
from gpugoblin.catalog.rules import (
    int_attribute,
    moved,
    require_axis,
    require_dtype,
    require_rank,
    same_dtype,
    shapes_error,
    text_attribute,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import (
    DTYPES,
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

__all__ = ["OPERATORS", "SCATTER"]


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    data, indices, updates = inputs
    function = text_attribute(attributes, "function")
    accepted = tuple(DTYPES) if function == "set" else NUMBERS
    same_dtype(f"scatter with {function}", (data, updates), accepted)
    require_dtype("scatter (indices)", indices, ("int32", "int64"))
    require_rank("scatter", data, 1)
    axis = require_axis("scatter", "axis", int_attribute(attributes, "axis"), data.rank)
    wanted = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    if updates.shape != wanted:
        raise shapes_error("scatter", inputs, f"updates of shape {wanted} are wanted")
    return (data,)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    # Indices widened to 64 bits, and one row of the updates.
    cost = moved(inputs, outputs, inputs[2].count)
    return replace(cost, scratch_bytes=32 * inputs[1].count + 2 * inputs[2].nbytes)


_APPLY: Final[dict[str, np.ufunc]] = {"add": np.add, "min": np.minimum, "max": np.maximum}


def _rows(array: Array, axis: int, count: int) -> Array:
    """The `count` axes from `axis` on, as one axis in front."""
    before, middle = array.shape[:axis], array.shape[axis : axis + count]
    size = int(np.prod(middle, dtype=np.int64))
    merged = array.reshape((*before, size, *array.shape[axis + count :]))
    return np.moveaxis(merged, axis, 0)


def _put(data: Array, indices: Array, updates: Array, axis: int, function: str) -> Array:
    result = np.array(np.moveaxis(data, axis, 0), order="C")
    rows = _rows(updates, axis, indices.ndim)
    flat = indices.reshape(-1)
    if function == "set":
        for place, row in zip(flat, rows, strict=True):
            result[place] = row
    else:
        _APPLY[function].at(result, flat, rows)
    return np.array(np.moveaxis(result, 0, axis), order="C")


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    data, indices, updates = inputs
    axis, function = int_attribute(attributes, "axis"), text_attribute(attributes, "function")
    require_indices(indices, axis, data.shape[axis], "scatter")
    wide: Any = np.float64 if data.dtype.kind == "f" and function == "add" else data.dtype
    with np.errstate(all="ignore"):
        result = _put(data.astype(wide), indices, updates.astype(wide), axis, function)
        return (result.astype(data.dtype),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    axis = int_attribute(attributes, "axis")
    data, indices, _ = inputs
    grown = indices.rank - 1
    return (
        *(
            Split(f"d{place}", "whole", (place, None, None), place)
            if place == axis
            else Split(
                f"d{place}", "parallel", (place, None, place + grown * (place > axis)), place
            )
            for place in range(data.rank)
        ),
        *(
            Split(f"i{place}", "whole", (None, place, axis + place), None)
            for place in range(indices.rank)
        ),
    )


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """Errors are put as the elements are; `add` also rounds once an update. Anything is admissible
    where an index is open."""
    data, indices, updates = inputs
    axis, function = int_attribute(attributes, "axis"), text_attribute(attributes, "function")
    if errors[1] is not None and np.any(errors[1] > 0):
        return (np.full(data.shape, np.inf),)
    floating = data.dtype.kind == "f"
    of_data, of_updates = errors[0], errors[2]
    if function in ("min", "max"):
        of_data, of_updates = with_flush(data, of_data), with_flush(updates, of_updates)
    if of_data is None and of_updates is None and not (floating and function == "add"):
        return (None,)
    loose = [
        np.broadcast_to(0.0 if error is None else error, array.shape)
        for error, array in ((of_data, data), (of_updates, updates))
    ]
    combined = function if function in ("set", "add") else "max"
    with np.errstate(all="ignore"):
        carried = _put(loose[0].astype(np.float64), indices, loose[1], axis, combined)
        if function != "add":
            return (carried,)
        size = carried + _put(
            np.abs(finite_part(data)), indices, np.abs(finite_part(updates)), axis, "add"
        )
        if not floating:
            limit = 2.0 ** (8 * data.dtype.itemsize - 1)
            return (np.where((size >= limit) & (carried > 0), np.inf, carried),)
        counts = _put(np.zeros(data.shape), indices, np.ones(updates.shape), axis, "add") + 1.0
        form = format_of([data])
        share = np.minimum(counts * form.unit, 0.5)
        own = (share / (1.0 - share) + 2 * form.unit) * size + 2 * counts * form.tiny
        return (guard_overflow(size, carried + own, form),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """`add`: the seed, and the seed gathered. `set`: only what was not overwritten. `min` and
    `max`: equal candidates share the seed."""
    (seed,) = seeds
    if seed is None:
        return None, None, None
    data, indices, updates = inputs
    axis, function = int_attribute(attributes, "axis"), text_attribute(attributes, "function")
    taken = builder.add("gather", [seed, indices], axis=axis)
    if function == "add":
        return seed, None, taken
    if function == "set":
        zeros = filled(builder, builder.spec(updates))
        kept = builder.add("scatter", [seed, indices, zeros], axis=axis, function="set")
        last = _last(builder, data, indices, updates, axis)
        return kept, None, call(builder, "where", last, taken, zeros)
    one, zero = (number(builder, n, builder.spec(data).dtype) for n in (1.0, 0.0))
    result = builder.add("scatter", [data, indices, updates], axis=axis, function=function)
    of_data = call(builder, "where", call(builder, "eq", data, result), one, zero)
    found = builder.add("gather", [result, indices], axis=axis)
    of_updates = call(builder, "where", call(builder, "eq", updates, found), one, zero)
    count = builder.add("scatter", [of_data, indices, of_updates], axis=axis, function="add")
    share = call(builder, "div", seed, count)
    by_updates = builder.add("gather", [share, indices], axis=axis)
    return (
        call(builder, "mul", of_data, share),
        None,
        call(builder, "mul", of_updates, by_updates),
    )


def _last(builder: Builder, data: int, indices: int, updates: int, axis: int) -> int:
    """bool, of the updates' shape: is this update the last one at its place?"""
    spec, places = builder.spec(data), builder.spec(indices)
    order = builder.add("iota", [], count=places.count, dtype="int64")
    extent = TensorSpec("int64", (spec.shape[axis],))
    flat = reshaped(builder, indices, (places.count,))
    none = filled(builder, extent, -1)
    winner = builder.add("scatter", [none, flat, order], axis=0, function="set")
    won = call(builder, "eq", builder.add("gather", [winner, flat], axis=0), order)
    shape = (*places.shape, *(1,) * (spec.rank - axis - 1))
    return spread(builder, reshaped(builder, won, shape), builder.spec(updates).shape)


SCATTER: Final = Operator(
    name="scatter",
    version=1,
    arity=(3, 3),
    attributes=(
        Attribute("axis", "int"),
        Attribute("function", "choice", choices=("set", "add", "min", "max")),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("add", normal(4, 3), ints(6, low=0, high=3), normal(6, 3), axis=0, function="add"),
        sample("set", normal(3, 5), ints(4, low=0, high=4), normal(3, 4), axis=1, function="set"),
        sample(
            "grid",
            *(normal(2, 4, 2), ints(3, 2, dtype="int64", low=0, high=3), normal(2, 3, 2, 2)),
            axis=1,
            function="add",
        ),
        sample("max", normal(5), ints(9, low=0, high=4), normal(9), axis=0, function="max"),
        sample("min", normal(5), ints(9, low=0, high=4), normal(9), axis=0, function="min"),
        sample(
            "scalar_index", normal(3, 2), ints(low=0, high=2), normal(2), axis=0, function="add"
        ),
        sample("empty", normal(3), ints(0, low=0, high=2), normal(0), axis=0, function="add"),
        sample("size_1", normal(1), ints(1, low=0, high=0), normal(1), axis=0, function="set"),
        sample(
            "strided",
            *(strided(normal(4, 3)), ints(5, low=0, high=3), strided(normal(5, 3))),
            axis=0,
            function="add",
        ),
        sample(
            "special", special(3, 3), ints(4, low=0, high=2), special(4, 3), axis=0, function="max"
        ),
        sample(
            "special_add",
            special(3, 3),
            ints(4, low=0, high=2),
            special(4, 3),
            axis=0,
            function="add",
        ),
        sample("long", normal(3), ints(2000, low=0, high=2), normal(2000), axis=0, function="add"),
        sample("int32", ints(4), ints(9, low=0, high=3), ints(9), axis=0, function="add"),
        sample("bool", truth(4), ints(6, low=0, high=3), truth(6), axis=0, function="set"),
    ),
    summary="The first input with the third put at int32 or int64 indices along an axis, whose "
    "place in the third is taken by the indices' axes: set, add, min or max, one after the other "
    "in C order of the indices. An index that is negative or too large is an error.",
    grad=_grad,
)

OPERATORS: Final = (SCATTER,)
