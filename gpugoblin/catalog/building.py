"""Short names for what decompositions and gradients write on a builder.

Owns: nothing but wording. Must not: know the builder, or any one operator's rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.casting import STORAGE, cast_array
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import DTYPES, FLOATS, Builder, TensorSpec

__all__ = [
    "call",
    "expression",
    "filled",
    "joined",
    "number",
    "reduced",
    "reshaped",
    "spread",
    "sum_to",
    "tree",
]


JOINED: Final = 64
"""Tensors that one `concat` takes: a node has no more inputs."""


def tree(count: int, write: Callable[..., int], floating: str = "float32") -> Formula:
    """The formula over `count` inputs that `write(builder, *inputs)` makes.

    Args:
        floating: what `builder.real` writes.
    """
    builder = FormulaBuilder(floating)
    return builder.build(write(builder, *(builder.input(place) for place in range(count))))


def call(builder: Builder, function: str, *operands: int) -> int:
    """One scalar function, elementwise."""
    return builder.add("formula", operands, tree=call_formula(function))


def expression(builder: Builder, operands: Sequence[int], write: Callable[..., int]) -> int:
    """A formula of one's own: `write(formula_builder, *inputs)`; it must use every operand. Its
    `real` writes numbers of the first floating operand's dtype."""
    dtypes = [builder.spec(operand).dtype for operand in operands]
    floating = next((dtype for dtype in dtypes if dtype in FLOATS), "float32")
    return builder.add("formula", operands, tree=tree(len(operands), write, floating))


def number(builder: Builder, value: float | int | bool, dtype: str = "float32") -> int:
    """A scalar constant."""
    if dtype in STORAGE:
        return builder.constant(cast_array(np.array(value, np.float32), dtype))
    return builder.constant(np.array(value, DTYPES[dtype]))


def filled(builder: Builder, spec: TensorSpec, value: float | int | bool = 0) -> int:
    """A tensor of equal elements."""
    scalar = number(builder, value, spec.dtype)
    return builder.add("broadcast", [scalar], shape=spec.shape) if spec.shape else scalar


def reshaped(builder: Builder, value: int, shape: Sequence[int]) -> int:
    """The value itself where it has that shape."""
    if builder.spec(value).shape == tuple(shape):
        return value
    return builder.add("reshape", [value], shape=tuple(shape))


def joined(builder: Builder, values: Sequence[int], axis: int = 0) -> int:
    """However many tensors, one or more, one behind the other."""
    left = list(values)
    while len(left) > 1:
        groups = [left[at : at + JOINED] for at in range(0, len(left), JOINED)]
        left = [
            builder.add("concat", group, axis=axis) if len(group) > 1 else group[0]
            for group in groups
        ]
    return left[0]


def spread(builder: Builder, value: int, shape: Sequence[int]) -> int:
    """Broadcast to a shape; the value itself where it has it."""
    if builder.spec(value).shape == tuple(shape):
        return value
    return builder.add("broadcast", [value], shape=tuple(shape))


def reduced(
    builder: Builder, function: str, value: int, axes: Sequence[int], *, keepdims: bool = True
) -> int:
    """A reduction; by default the axes stay, with extent 1."""
    ordered = tuple(sorted(axes))
    return builder.add("reduce", [value], function=function, axes=ordered, keepdims=keepdims)


def sum_to(builder: Builder, value: int, shape: Sequence[int]) -> int:
    """What a broadcast from `shape` did, undone: the sum over the axes that it repeated."""
    spec = builder.spec(value)
    new = spec.rank - len(shape)
    axes = [
        axis
        for axis, extent in enumerate(spec.shape)
        if axis < new or (shape[axis - new] == 1 and extent != 1)
    ]
    if not axes:
        return value
    if math.prod(spec.shape[axis] for axis in axes) == 1:
        return reshaped(builder, value, shape)
    return reshaped(builder, reduced(builder, "sum", value, axes, keepdims=False), shape)
