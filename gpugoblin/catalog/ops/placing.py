"""Operators that place elements among others: pad, flip, update_slice.

Owns: their declarations. They keep bits, as the operators in `movement.py` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.building import call, filled, number, reduced
from gpugoblin.catalog.moving import invalid, moving
from gpugoblin.catalog.rules import ints_attribute, parallel_axes, same_dtype, shapes_error
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import (
    DTYPES,
    Array,
    Attribute,
    Attributes,
    Builder,
    Split,
    TensorSpec,
)

__all__ = ["OPERATORS"]

_MOST: Final = 2**40


def _per_axis(operator: str, attributes: Attributes, name: str, rank: int, least: int) -> None:
    value = ints_attribute(attributes, name)
    if len(value) != rank or any(not least <= item <= _MOST for item in value):
        raise invalid(operator, name, value, f"{rank} integers of {least} or more are wanted")


# pad


def _pads(attributes: Attributes) -> tuple[tuple[int, ...], ...]:
    return tuple(ints_attribute(attributes, name) for name in ("low", "high", "between"))


def _dilated(extent: int, between: int) -> int:
    """The extent of an axis with `between` elements put between neighbors."""
    return extent + max(0, extent - 1) * between


def _pad_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    data, value = inputs
    same_dtype("pad", inputs, tuple(DTYPES))
    if value.rank:
        raise shapes_error("pad", inputs, "the value must be a scalar")
    for name in ("low", "high", "between"):
        _per_axis("pad", attributes, name, data.rank, 0)
    low, high, between = _pads(attributes)
    shape = tuple(
        first + _dilated(extent, gap) + last
        for extent, first, last, gap in zip(data.shape, low, high, between, strict=True)
    )
    return (TensorSpec(data.dtype, shape),)


def _inside(shape: Sequence[int], attributes: Attributes) -> tuple[slice, ...]:
    """Where the elements of the data lie in the result."""
    low, _, between = _pads(attributes)
    return tuple(
        slice(first, first + _dilated(extent, gap), gap + 1)
        for extent, first, gap in zip(shape, low, between, strict=True)
    )


def _pad_move(inputs: Sequence[Array], attributes: Attributes) -> Array:
    data, value = inputs
    low, high, between = _pads(attributes)
    shape = [
        first + _dilated(extent, gap) + last
        for extent, first, last, gap in zip(data.shape, low, high, between, strict=True)
    ]
    result = np.full(shape, value, data.dtype)
    result[_inside(data.shape, attributes)] = data
    return result


def _pad_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    pads = zip(*_pads(attributes), strict=True)
    return tuple(
        Split(f"i{axis}", "whole" if any(pad) else "parallel", (axis, None), axis)
        for axis, pad in enumerate(pads)
    )


def _pad_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    (seed,) = seeds
    if seed is None:
        return None, None
    data = builder.spec(inputs[0])
    inside = _inside(data.shape, attributes)
    start, stop, step = (tuple(getattr(s, name) for s in inside) for name in _BOX)
    taken = builder.add("slice", [seed], start=start, stop=stop, step=step)
    low, high, between = _pads(attributes)
    operands = [filled(builder, data), number(builder, 1.0, data.dtype)]
    outside = builder.add("pad", operands, low=low, high=high, between=between)
    rest = call(builder, "mul", seed, outside)
    axes = range(data.rank)
    return taken, reduced(builder, "sum", rest, axes, keepdims=False) if data.rank else rest


_BOX: Final = ("start", "stop", "step")

# flip


def _flip_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    axes = ints_attribute(attributes, "axes")
    if list(axes) != sorted(set(axes)) or any(not 0 <= axis < inputs[0].rank for axis in axes):
        raise invalid("flip", "axes", axes, f"rising axes of {inputs[0]} are wanted")
    return (inputs[0],)


def _flip_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    axes = ints_attribute(attributes, "axes")
    return tuple(None if seed is None else builder.add("flip", [seed], axes=axes) for seed in seeds)


# update_slice


def _update_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    data, update = inputs
    same_dtype("update_slice", inputs, tuple(DTYPES))
    if update.rank != data.rank:
        raise shapes_error("update_slice", inputs, "the ranks must be equal")
    _per_axis("update_slice", attributes, "start", data.rank, 0)
    _per_axis("update_slice", attributes, "step", data.rank, 1)
    for place, whole in zip(_target(update.shape, attributes), data.shape, strict=True):
        if place.stop > whole:
            raise shapes_error("update_slice", inputs, "the update does not fit inside the data")
    return (data,)


def _target(shape: Sequence[int], attributes: Attributes) -> tuple[slice, ...]:
    start, step = ints_attribute(attributes, "start"), ints_attribute(attributes, "step")
    return tuple(
        slice(first, first + max(0, (extent - 1) * stride + 1), stride)
        for extent, first, stride in zip(shape, start, step, strict=True)
    )


def _update_move(inputs: Sequence[Array], attributes: Attributes) -> Array:
    data, update = inputs
    result = np.array(data, order="C")
    result[_target(update.shape, attributes)] = update
    return result


def _update_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    data, update = inputs
    return tuple(
        Split(f"i{axis}", "parallel" if whole == part else "whole", (axis, axis), axis)
        for axis, (whole, part) in enumerate(zip(data.shape, update.shape, strict=True))
    )


def _update_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    (seed,) = seeds
    if seed is None:
        return None, None
    update = builder.spec(inputs[1])
    target = _target(update.shape, attributes)
    start, stop, step = (tuple(getattr(s, name) for s in target) for name in _BOX)
    zeros = filled(builder, update)
    kept = builder.add("update_slice", [seed, zeros], start=start, step=step)
    return kept, builder.add("slice", [seed], start=start, stop=stop, step=step)


OPERATORS: Final = (
    moving(
        "pad",
        (Attribute("between", "ints"), Attribute("high", "ints"), Attribute("low", "ints")),
        _pad_infer,
        _pad_move,
        _pad_splits,
        (
            sample("box", normal(2, 3), normal(), low=(1, 0), high=(2, 0), between=(0, 0)),
            sample("between", normal(3, 2), normal(), low=(0, 1), high=(1, 0), between=(2, 1)),
            sample("empty", normal(0, 2), normal(), low=(2, 0), high=(1, 1), between=(3, 0)),
            sample("size_1", normal(1), normal(), low=(0,), high=(3,), between=(4,)),
            sample("scalar", normal(), normal(), low=(), high=(), between=()),
            sample(
                "strided", strided(normal(3, 3)), normal(), low=(0, 2), high=(0, 0), between=(0, 0)
            ),
            sample("special", special(2, 3), normal(), low=(1, 1), high=(1, 1), between=(1, 1)),
            sample(
                "int64",
                ints(4, dtype="int64"),
                ints(dtype="int64"),
                low=(3,),
                high=(0,),
                between=(0,),
            ),
            sample("bool", truth(2, 2), truth(), low=(0, 1), high=(0, 0), between=(0, 0)),
        ),
        "Puts `low` and `high` copies of the second input, a scalar, before and after each axis, "
        "and `between` of them between neighbors.",
        _pad_grad,
        arity=(2, 2),
    ),
    moving(
        "flip",
        (Attribute("axes", "ints"),),
        _flip_infer,
        lambda inputs, attributes: np.flip(inputs[0], ints_attribute(attributes, "axes")),
        lambda inputs, attributes: parallel_axes(
            inputs[0].rank, ints_attribute(attributes, "axes")
        ),
        (
            sample("rows", normal(3, 4), axes=(0,)),
            sample("both", normal(3, 4, 2), axes=(0, 2)),
            sample("none", normal(3), axes=()),
            sample("empty", normal(0, 2), axes=(0, 1)),
            sample("size_1", normal(1), axes=(0,)),
            sample("strided", strided(normal(3, 4)), axes=(1,)),
            sample("special", special(2, 4), axes=(1,)),
            sample("bool", truth(5), axes=(0,)),
        ),
        "Reverses the order of elements along axes.",
        _flip_grad,
    ),
    moving(
        "update_slice",
        (Attribute("start", "ints"), Attribute("step", "ints")),
        _update_infer,
        _update_move,
        _update_splits,
        (
            sample("box", normal(4, 5), normal(2, 5), start=(1, 0), step=(1, 1)),
            sample("steps", normal(7, 6), normal(3, 2), start=(1, 0), step=(2, 5)),
            sample("empty", normal(3, 2), normal(0, 2), start=(3, 0), step=(1, 1)),
            sample("empty_data", normal(0, 2), normal(0, 1), start=(0, 1), step=(1, 1)),
            sample("size_1", normal(1), normal(1), start=(0,), step=(3,)),
            sample(
                "strided", strided(normal(3, 4)), strided(normal(3, 2)), start=(0, 1), step=(1, 1)
            ),
            sample("special", special(3, 3), special(2, 3), start=(0, 0), step=(2, 1)),
            sample("int32", ints(6), ints(2), start=(1,), step=(3,)),
            sample("bool", truth(6), truth(2), start=(4,), step=(1,)),
        ),
        "The first input with a box replaced by the second: its elements lie from `start` in steps "
        "of `step`.",
        _update_grad,
        arity=(2, 2),
    ),
)
