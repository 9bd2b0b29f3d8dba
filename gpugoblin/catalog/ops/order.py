"""Operators that look for extremes: reduce_arg and topk. Owns: their declarations.

Order: NaN is above every number, as in NumPy's sort; among equal elements the lower index comes
first. -0.0 and 0.0 are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.along import scatter_along
from gpugoblin.catalog.rounding import with_flush
from gpugoblin.catalog.rules import (
    bool_attribute,
    int_attribute,
    moved,
    parallel_axes,
    require_axis,
    require_dtype,
    require_rank,
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
from gpugoblin.errors import GraphError

__all__ = ["OPERATORS", "REDUCE_ARG", "TOPK"]


def _farthest(distance: Array, admissible: Array, axis: int) -> Array:
    """The largest distance among the admissible places, along `axis`."""
    return np.asarray(np.max(np.where(admissible, distance, 0), axis=axis), np.float64)


# reduce_arg


def _arg_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    spec = inputs[0]
    require_dtype("reduce_arg", spec, (*NUMBERS, "bool"))
    require_rank("reduce_arg", spec, 1)
    axis = require_axis("reduce_arg", "axis", int_attribute(attributes, "axis"), spec.rank)
    if spec.shape[axis] == 0:
        function = text_attribute(attributes, "function")
        raise GraphError(
            "empty_reduction", operator="reduce_arg", function=function, shape=spec.shape
        )
    kept = (1,) if bool_attribute(attributes, "keepdims") else ()
    return (TensorSpec("int64", (*spec.shape[:axis], *kept, *spec.shape[axis + 1 :])),)


def _arg_cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    # NumPy copies the operand when the axis is not the last one.
    return moved(inputs, outputs, inputs[0].count, inputs[0].nbytes)


def _arg_reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    find = np.argmax if text_attribute(attributes, "function") == "argmax" else np.argmin
    found = find(
        inputs[0],
        axis=int_attribute(attributes, "axis"),
        keepdims=bool_attribute(attributes, "keepdims"),
    )
    return (np.asarray(found).astype(DTYPES["int64"]),)


def _arg_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    axis = int_attribute(attributes, "axis")
    keep = bool_attribute(attributes, "keepdims")
    return tuple(
        Split(f"i{place}", "whole", (place,), None)
        if place == axis
        else Split(f"i{place}", "parallel", (place,), place - (place > axis and not keep))
        for place in range(inputs[0].rank)
    )


def _arg_propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """The farthest place whose element could be the extreme one within the errors."""
    error = with_flush(inputs[0], errors[0])
    if error is None:
        return (None,)
    axis = int_attribute(attributes, "axis")
    sign = 1.0 if text_attribute(attributes, "function") == "argmax" else -1.0
    loose = np.moveaxis(np.broadcast_to(error, inputs[0].shape), axis, -1)
    value = np.moveaxis(inputs[0].astype(np.float64), axis, -1) * sign
    place = (
        outputs[0] if not bool_attribute(attributes, "keepdims") else np.squeeze(outputs[0], axis)
    )
    best = place[..., None]
    with np.errstate(all="ignore"):
        floor = np.take_along_axis(value - loose, best, -1)
        admissible = (value + loose >= floor) | np.isinf(loose).any(-1, keepdims=True)
        distance = np.abs(np.arange(value.shape[-1]) - best)
    found = _farthest(distance, admissible, -1)
    return (found.reshape(outputs[0].shape),)


REDUCE_ARG: Final = Operator(
    name="reduce_arg",
    version=1,
    arity=(1, 1),
    attributes=(
        Attribute("axis", "int"),
        Attribute("function", "choice", choices=("argmax", "argmin")),
        Attribute("keepdims", "bool", required=False, default=False),
    ),
    infer=_arg_infer,
    cost=_arg_cost,
    reference=_arg_reference,
    splits=_arg_splits,
    tolerance=Tolerance(propagate=_arg_propagate),
    samples=(
        sample("argmax", normal(3, 7), axis=1, function="argmax"),
        sample("argmin", normal(3, 7), axis=0, function="argmin", keepdims=True),
        sample("ties", ints(4, 9, low=0, high=2), axis=1, function="argmax"),
        sample("empty", normal(0, 3), axis=1, function="argmax"),
        sample("size_1", normal(1), axis=0, function="argmin"),
        sample("strided", strided(normal(3, 5)), axis=1, function="argmin"),
        sample("special", special(4, 6), axis=1, function="argmax"),
        sample("special_min", special(4, 6), axis=0, function="argmin"),
        sample("int64", ints(2, 3, 4, dtype="int64"), axis=1, function="argmin"),
        sample("bool", truth(3, 4), axis=1, function="argmax"),
    ),
    summary="The int64 index of the largest or smallest element along an axis: the first of "
    "equals, and the first NaN if there is one.",
)


# topk


def _topk_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    spec = inputs[0]
    require_dtype("topk", spec, NUMBERS)
    require_rank("topk", spec, 1)
    axis = require_axis("topk", "axis", int_attribute(attributes, "axis"), spec.rank)
    count = int_attribute(attributes, "k")
    if not 1 <= count <= spec.shape[axis]:
        raise GraphError(
            "attribute_invalid",
            operator="topk",
            attribute="k",
            value=count,
            reason=f"1 to {spec.shape[axis]} is wanted",
        )
    shape = (*spec.shape[:axis], count, *spec.shape[axis + 1 :])
    return (TensorSpec(spec.dtype, shape), TensorSpec("int64", shape))


def _topk_cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    extent = inputs[0].shape[int_attribute(attributes, "axis")]
    # A copy of the operand and one 64-bit index for each of its elements.
    scratch = inputs[0].nbytes + 8 * inputs[0].count
    return moved(inputs, outputs, inputs[0].count * max(1, extent.bit_length()), scratch)


def _topk_reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    axis, count = int_attribute(attributes, "axis"), int_attribute(attributes, "k")
    array = np.moveaxis(inputs[0], axis, -1)
    if bool_attribute(attributes, "largest"):
        # Sorted backwards and read backwards: descending, and equals keep their order.
        backwards = np.argsort(array[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        order = array.shape[-1] - 1 - backwards
    else:
        order = np.argsort(array, axis=-1, kind="stable")
    indices = order[..., :count]
    values = np.take_along_axis(array, indices, -1)
    return (
        np.ascontiguousarray(np.moveaxis(values, -1, axis)),
        np.ascontiguousarray(np.moveaxis(indices, -1, axis)).astype(DTYPES["int64"]),
    )


def _topk_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    return parallel_axes(inputs[0].rank, whole=(int_attribute(attributes, "axis"),))


def _topk_propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """The k-th largest of a row moves no further than the row's largest error; an index may be any
    place whose element could have that rank."""
    error = with_flush(inputs[0], errors[0])
    if error is None:
        return (None, None)
    axis = int_attribute(attributes, "axis")
    loose = np.moveaxis(np.broadcast_to(error, inputs[0].shape), axis, -1)
    row = np.max(loose, axis=-1, keepdims=True)
    values = np.moveaxis(outputs[0].astype(np.float64), axis, -1)
    indices = np.moveaxis(outputs[1], axis, -1)
    source = np.moveaxis(inputs[0].astype(np.float64), axis, -1)
    far = np.zeros(indices.shape)
    everything = np.isinf(row[..., 0])
    places = np.arange(source.shape[-1])
    with np.errstate(all="ignore"):
        for rank in range(indices.shape[-1]):
            near = np.abs(source - values[..., rank, None]) <= loose + row
            admissible = near | everything[..., None]
            far[..., rank] = _farthest(np.abs(places - indices[..., rank, None]), admissible, -1)
    moved_values = np.broadcast_to(row, indices.shape)
    return (np.moveaxis(moved_values, -1, axis), np.moveaxis(far, -1, axis))


def _topk_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """Each seed goes where its value was taken."""
    seed, axis = seeds[0], int_attribute(attributes, "axis")
    if seed is None:
        return (None,)
    extent = builder.spec(inputs[0]).shape[axis]
    return (scatter_along(builder, seed, outputs[1], axis, extent),)


TOPK: Final = Operator(
    name="topk",
    version=1,
    arity=(1, 1),
    attributes=(
        Attribute("axis", "int"),
        Attribute("k", "int"),
        Attribute("largest", "bool", required=False, default=True),
    ),
    infer=_topk_infer,
    cost=_topk_cost,
    reference=_topk_reference,
    splits=_topk_splits,
    tolerance=Tolerance(propagate=_topk_propagate),
    samples=(
        sample("largest", normal(3, 9), axis=1, k=4),
        sample("smallest", normal(6, 3), axis=0, k=2, largest=False),
        sample("ties", ints(4, 9, low=0, high=2), axis=1, k=5),
        sample("ties_smallest", ints(4, 9, low=0, high=2), axis=1, k=9, largest=False),
        sample("empty", normal(0, 3), axis=1, k=2),
        sample("size_1", normal(1), axis=0, k=1),
        sample("strided", strided(normal(3, 5)), axis=1, k=2),
        sample("special", special(4, 7), axis=1, k=5),
        sample("special_smallest", special(4, 7), axis=0, k=3, largest=False),
        sample("int64", ints(2, 3, 4, dtype="int64"), axis=1, k=2),
    ),
    summary="The k largest (or smallest) elements along an axis, best first, and their int64 "
    "indices. NaN counts as larger than any number; among equals the lower index is first.",
    grad=_topk_grad,
)

OPERATORS: Final = (REDUCE_ARG, TOPK)
