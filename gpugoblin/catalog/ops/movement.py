"""Operators that only move elements: reshape, permute, slice, broadcast, concat.

Owns: their declarations. They keep bits: any dtype, no rounding, errors travel with the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.building import number, reshaped, sum_to
from gpugoblin.catalog.moving import invalid, moving
from gpugoblin.catalog.rules import (
    int_attribute,
    ints_attribute,
    require_axis,
    require_rank,
    same_dtype,
    shapes_error,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import (
    DTYPES,
    MAX_RANK,
    Array,
    Attribute,
    Attributes,
    Builder,
    Split,
    TensorSpec,
)

__all__ = ["MAX_CONCAT_INPUTS", "OPERATORS"]

MAX_CONCAT_INPUTS: Final = 64


def _target(operator: str, attributes: Attributes) -> tuple[int, ...]:
    shape = ints_attribute(attributes, "shape")
    if len(shape) > MAX_RANK or any(extent < 0 for extent in shape):
        raise invalid(operator, "shape", shape, f"at most {MAX_RANK} extents of 0 or more")
    return shape


# reshape


def _reshape_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    shape = _target("reshape", attributes)
    result = TensorSpec(inputs[0].dtype, shape)
    if result.count != inputs[0].count:
        raise shapes_error("reshape", [inputs[0], result], "the element counts differ")
    return (result,)


def _reshape_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    """Axes that survive unchanged are parallel; all others must stay whole."""
    before, after = inputs[0].shape, ints_attribute(attributes, "shape")
    places = {place: axis for axis, place in _places(after)}
    kept = {axis: places[place] for axis, place in _places(before) if place in places}
    used = set(kept.values())
    return (
        *(
            Split(f"i{axis}", "parallel", (axis,), kept[axis])
            if axis in kept
            else Split(f"i{axis}", "whole", (axis,), None)
            for axis in range(len(before))
        ),
        *(
            Split(f"o{axis}", "whole", (None,), axis)
            for axis in range(len(after))
            if axis not in used
        ),
    )


def _places(shape: tuple[int, ...]) -> list[tuple[int, tuple[int, int]]]:
    """Each axis that can be cut, with the count of elements before it and its extent.

    Two axes at the same place of two shapes of one count are the same index.
    """
    if 0 in shape:
        return []
    places: list[tuple[int, tuple[int, int]]] = []
    before = 1
    for axis, extent in enumerate(shape):
        if extent != 1:
            places.append((axis, (before, extent)))
        before *= extent
    return places


def _shape_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """Of reshape and broadcast: sums over what was repeated, in the input's shape."""
    (seed,) = seeds
    shape = builder.spec(inputs[0]).shape
    if seed is None:
        return (None,)
    if builder.spec(inputs[0]).count == builder.spec(seed).count:
        return (reshaped(builder, seed, shape),)
    return (sum_to(builder, seed, shape),)


# permute


def _permute_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    axes = ints_attribute(attributes, "axes")
    if sorted(axes) != list(range(inputs[0].rank)):
        raise invalid("permute", "axes", axes, f"each axis of {inputs[0]} once is wanted")
    return (TensorSpec(inputs[0].dtype, tuple(inputs[0].shape[axis] for axis in axes)),)


def _permute_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    axes = ints_attribute(attributes, "axes")
    return tuple(Split(f"i{axis}", "parallel", (axis,), place) for place, axis in enumerate(axes))


def _permute_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    axes = ints_attribute(attributes, "axes")
    inverse = tuple(axes.index(axis) for axis in range(len(axes)))
    return tuple(
        None if seed is None else builder.add("permute", [seed], axes=inverse) for seed in seeds
    )


# slice


def _slice_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    start, stop, step = (ints_attribute(attributes, name) for name in ("start", "stop", "step"))
    shape = inputs[0].shape
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if len(value) != len(shape):
            raise invalid("slice", name, value, f"one integer an axis of {inputs[0]} is wanted")
    for first, last, stride, extent in zip(start, stop, step, shape, strict=True):
        if not 0 <= first <= last <= extent:
            raise invalid("slice", "stop", stop, f"0 <= start <= stop <= {extent} must hold")
        if stride < 1:
            raise invalid("slice", "step", step, "steps of 1 or more are wanted")
    extents = tuple(
        -(-(last - first) // stride) for first, last, stride in zip(start, stop, step, strict=True)
    )
    return (TensorSpec(inputs[0].dtype, extents),)


def _slice_move(inputs: Sequence[Array], attributes: Attributes) -> Array:
    start, stop, step = (ints_attribute(attributes, name) for name in ("start", "stop", "step"))
    return np.asarray(inputs[0][tuple(map(slice, start, stop, step))])


def _slice_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    start, stop, step = (ints_attribute(attributes, name) for name in ("start", "stop", "step"))
    return tuple(
        Split(
            f"i{axis}",
            "parallel" if (start[axis], stop[axis], step[axis]) == (0, extent, 1) else "whole",
            (axis,),
            axis,
        )
        for axis, extent in enumerate(inputs[0].shape)
    )


def _slice_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """Zeros around and between the elements that were taken."""
    (seed,) = seeds
    if seed is None:
        return (None,)
    start, step = ints_attribute(attributes, "start"), ints_attribute(attributes, "step")
    high = tuple(
        whole - first - max(0, (taken - 1) * stride + 1)
        for whole, first, taken, stride in zip(
            builder.spec(inputs[0]).shape, start, builder.spec(seed).shape, step, strict=True
        )
    )
    between = tuple(stride - 1 for stride in step)
    zero = number(builder, 0.0, builder.spec(seed).dtype)
    return (builder.add("pad", [seed, zero], low=start, high=high, between=between),)


# broadcast


def _broadcast_infer(
    inputs: Sequence[TensorSpec], attributes: Attributes
) -> tuple[TensorSpec, ...]:
    shape = _target("broadcast", attributes)
    source = inputs[0].shape
    aligned = shape[len(shape) - len(source) :]
    if len(source) > len(shape) or any(
        extent not in (1, wanted) for extent, wanted in zip(source, aligned, strict=True)
    ):
        raise shapes_error(
            "broadcast",
            [inputs[0], TensorSpec(inputs[0].dtype, shape)],
            "only axes of extent 1 and new leading axes can grow",
        )
    return (TensorSpec(inputs[0].dtype, shape),)


def _broadcast_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    shape = ints_attribute(attributes, "shape")
    new = len(shape) - inputs[0].rank
    return tuple(
        Split(
            f"i{axis}",
            "parallel",
            (axis - new if axis >= new and inputs[0].shape[axis - new] == extent else None,),
            axis,
        )
        for axis, extent in enumerate(shape)
    )


# concat


def _concat_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    (seed,) = seeds
    if seed is None:
        return (None,) * len(inputs)
    axis, shape = int_attribute(attributes, "axis"), builder.spec(seed).shape
    found: list[int | None] = []
    first = 0
    for value in inputs:
        last = first + builder.spec(value).shape[axis]
        found.append(
            builder.add(
                "slice",
                [seed],
                start=tuple(first if place == axis else 0 for place in range(len(shape))),
                stop=tuple(last if place == axis else n for place, n in enumerate(shape)),
                step=(1,) * len(shape),
            )
        )
        first = last
    return tuple(found)


def _concat_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    dtype = same_dtype("concat", inputs, tuple(DTYPES))
    require_rank("concat", inputs[0], 1)
    axis = require_axis("concat", "axis", int_attribute(attributes, "axis"), inputs[0].rank)
    first = inputs[0].shape
    for spec in inputs:
        if spec.rank != len(first) or any(
            place != axis and extent != first[place] for place, extent in enumerate(spec.shape)
        ):
            raise shapes_error("concat", inputs, f"all axes but axis {axis} must agree")
    joined = sum(spec.shape[axis] for spec in inputs)
    return (TensorSpec(dtype, (*first[:axis], joined, *first[axis + 1 :])),)


def _concat_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    joined = int_attribute(attributes, "axis")
    return tuple(
        Split(f"i{axis}", "whole" if axis == joined else "parallel", (axis,) * len(inputs), axis)
        for axis in range(inputs[0].rank)
    )


_SHAPE: Final = Attribute("shape", "ints")

OPERATORS: Final = (
    moving(
        "reshape",
        (_SHAPE,),
        _reshape_infer,
        lambda inputs, attributes: inputs[0].reshape(ints_attribute(attributes, "shape")),
        _reshape_splits,
        (
            sample("merge", normal(2, 3, 4), shape=(6, 4)),
            sample("empty", normal(0, 3), shape=(3, 0, 2)),
            sample("size_1", normal(1), shape=()),
            sample("strided", strided(normal(4, 3)), shape=(2, 6)),
            sample("special", special(2, 4), shape=(8,)),
            sample("int64", ints(6, dtype="int64"), shape=(1, 6, 1)),
            sample("bool", truth(6), shape=(3, 2)),
        ),
        "The same elements in C order under another shape; always a view.",
        _shape_grad,
    ),
    moving(
        "permute",
        (Attribute("axes", "ints"),),
        _permute_infer,
        lambda inputs, attributes: inputs[0].transpose(ints_attribute(attributes, "axes")),
        _permute_splits,
        (
            sample("rotate", normal(2, 3, 4), axes=(2, 0, 1)),
            sample("empty", normal(0, 3), axes=(1, 0)),
            sample("size_1", normal(1, 1), axes=(1, 0)),
            sample("strided", strided(normal(4, 3)), axes=(1, 0)),
            sample("special", special(2, 4), axes=(1, 0)),
            sample("scalar", ints(), axes=()),
            sample("bool", truth(3, 2), axes=(1, 0)),
        ),
        "Axis i of the result is axis axes[i] of the input.",
        _permute_grad,
    ),
    moving(
        "slice",
        (Attribute("start", "ints"), Attribute("step", "ints"), Attribute("stop", "ints")),
        _slice_infer,
        _slice_move,
        _slice_splits,
        (
            sample("box", normal(5, 6), start=(1, 0), stop=(4, 6), step=(1, 1)),
            sample("steps", normal(7, 6), start=(1, 0), stop=(7, 5), step=(2, 3)),
            sample("empty", normal(4, 3), start=(2, 0), stop=(2, 3), step=(1, 1)),
            sample("empty_input", normal(0, 3), start=(0, 1), stop=(0, 2), step=(1, 1)),
            sample("size_1", normal(1), start=(0,), stop=(1,), step=(5,)),
            sample("strided", strided(normal(4, 4)), start=(0, 1), stop=(3, 4), step=(1, 2)),
            sample("special", special(3, 4), start=(0, 0), stop=(3, 3), step=(1, 1)),
            sample("bool", truth(6), start=(2,), stop=(6,), step=(1,)),
        ),
        "A box with steps: start <= i < stop in steps of step > 0, one of each an axis.",
        _slice_grad,
    ),
    moving(
        "broadcast",
        (_SHAPE,),
        _broadcast_infer,
        lambda inputs, attributes: np.broadcast_to(inputs[0], ints_attribute(attributes, "shape")),
        _broadcast_splits,
        (
            sample("rows", normal(4), shape=(3, 4)),
            sample("grow", normal(3, 1), shape=(2, 3, 5)),
            sample("empty", normal(0, 3), shape=(2, 0, 3)),
            sample("to_empty", normal(1, 3), shape=(0, 3)),
            sample("size_1", normal(), shape=(2, 2)),
            sample("strided", strided(normal(1, 4)), shape=(3, 4)),
            sample("special", special(1, 6), shape=(2, 6)),
            sample("int32", ints(1), shape=(5,)),
        ),
        "Repeats axes of extent 1 and new leading axes up to the shape, as NumPy's broadcast_to.",
        _shape_grad,
    ),
    moving(
        "concat",
        (Attribute("axis", "int"),),
        _concat_infer,
        lambda inputs, attributes: np.concatenate(inputs, int_attribute(attributes, "axis")),
        _concat_splits,
        (
            sample("columns", normal(3, 2), normal(3, 4), axis=1),
            sample("three", normal(1, 2), normal(2, 2), normal(3, 2), axis=0),
            sample("empty", normal(0, 2), normal(3, 2), axis=0),
            sample("size_1", normal(1), axis=0),
            sample("strided", strided(normal(2, 3)), normal(2, 3), axis=0),
            sample("special", special(2, 4), special(2, 4), axis=1),
            sample("bool", truth(2), truth(3), axis=0),
        ),
        "Joins 1 to 64 inputs along one axis; the other axes must agree.",
        _concat_grad,
        arity=(1, MAX_CONCAT_INPUTS),
    ),
)
