"""cross_entropy and mse. Owns: their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpugoblin.catalog.along import take_along
from gpugoblin.catalog.building import expression, reduced, reshaped
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.composites.activation import log_softmax_steps, softmax_steps
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import (
    int_attribute,
    require_axis,
    require_dtype,
    require_rank,
    same_dtype,
    shapes_error,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided
from gpugoblin.catalog.spec import FLOATS, Attribute, Attributes, Builder, Split, TensorSpec

__all__ = ["OPERATORS", "labelled"]


def _require_entropy(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    scores, labels = inputs
    require_dtype("cross_entropy", scores, FLOATS)
    require_dtype("cross_entropy (labels)", labels, ("int32", "int64"))
    require_rank("cross_entropy", scores, 1)
    axis = require_axis("cross_entropy", "axis", int_attribute(attributes, "axis"), scores.rank)
    if labels.shape != (*scores.shape[:axis], *scores.shape[axis + 1 :]):
        raise shapes_error("cross_entropy", inputs, f"labels for all axes but {axis} are wanted")


def labelled(
    builder: Builder, logs: int, labels: int, axis: int, ignored: int, weights: int | None = None
) -> int:
    """The negative of each example's element of `logs` at its label along `axis`, times the weight
    of that class; 0 where the label is `ignored`."""
    spec = builder.spec(labels)
    dtype = builder.spec(logs).dtype
    wide = labels if spec.dtype == "int64" else builder.add("cast", [labels], dtype="int64")

    def known(build: FormulaBuilder, label: int) -> int:
        skip = build.call("eq", label, build.const("int64", ignored))
        return build.call("where", skip, build.const("int64", 0), label)

    def loss(build: FormulaBuilder, label: int, value: int, *scale: int) -> int:
        skip = build.call("eq", label, build.const("int64", ignored))
        one = build.call("neg", value)
        one = build.call("mul", one, scale[0]) if scale else one
        return build.call("where", skip, build.const(dtype, 0.0), one)

    column = (*spec.shape[:axis], 1, *spec.shape[axis:])
    places = expression(builder, [wide], known)
    taken = take_along(builder, logs, reshaped(builder, places, column), axis)
    operands = [wide, reshaped(builder, taken, spec.shape)]
    if weights is not None:
        operands.append(builder.add("gather", [weights, places], axis=0))
    return expression(builder, operands, loss)


def _entropy(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    scores, labels = inputs
    axis, ignored = int_attribute(attributes, "axis"), int_attribute(attributes, "ignored")
    logs = log_softmax_steps(builder, scores, axis)
    return (labelled(builder, logs, labels, axis, ignored),)


def _entropy_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    """Examples are independent, which the lookup of labels in the decomposition hides."""
    axis, rank = int_attribute(attributes, "axis"), inputs[0].rank
    found = [Split(f"i{axis}", "whole", (axis, None), None)]
    for at in range(rank):
        if at != axis:
            label = at if at < axis else at - 1
            found.append(Split(f"i{at}", "parallel", (at, label), label))
    return tuple(found)


def _entropy_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """(softmax - 1 at the label) times the seed, element by element: unlike the derivative of the
    lookup, a scatter, it can be cut along every axis."""
    scores, labels = inputs
    axis, ignored = int_attribute(attributes, "axis"), int_attribute(attributes, "ignored")
    shape, dtype, spec = (
        builder.spec(scores).shape,
        builder.spec(scores).dtype,
        builder.spec(labels),
    )
    column = (*spec.shape[:axis], 1, *spec.shape[axis:])
    line = tuple(extent if at == axis else 1 for at, extent in enumerate(shape))
    wide = labels if spec.dtype == "int64" else builder.add("cast", [labels], dtype="int64")
    places = reshaped(builder, builder.add("iota", [], count=shape[axis]), line)

    def write(build: FormulaBuilder, part: int, label: int, place: int, seed: int) -> int:
        one, zero = build.const(dtype, 1.0), build.const(dtype, 0.0)
        here = build.call("where", build.call("eq", label, place), one, zero)
        share = build.call("mul", build.call("sub", part, here), seed)
        skip = build.call("eq", label, build.const("int64", ignored))
        return build.call("where", skip, zero, share)

    seed = seeds[0]
    if seed is None:
        return None, None
    operands = [
        softmax_steps(builder, scores, axis),
        reshaped(builder, wide, column),
        places,
        reshaped(builder, seed, column),
    ]
    return expression(builder, operands, write), None


def _require_square(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    same_dtype("mse", inputs, FLOATS)
    if inputs[0].shape != inputs[1].shape:
        raise shapes_error("mse", inputs, "they must be equal")


def _square(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    def write(build: FormulaBuilder, x: int, y: int) -> int:
        gap = build.call("sub", x, y)
        return build.call("mul", gap, gap)

    squares = expression(builder, inputs, write)
    shape = builder.spec(squares).shape
    if not shape:
        return (squares,)
    return (reduced(builder, "mean", squares, range(len(shape)), keepdims=False),)


OPERATORS: Final = (
    replace(
        composite(
            "cross_entropy",
            (2, 2),
            (
                Attribute("axis", "int"),
                Attribute("ignored", "int", required=False, default=-100),
            ),
            _require_entropy,
            _entropy,
            (
                sample("rows", normal(5, 4), ints(5, low=0, high=3), axis=1),
                sample("plane", normal(2, 4, 3), ints(2, 3, dtype="int64", low=0, high=3), axis=1),
                sample("ignored", normal(6, 3), ints(6, low=0, high=2), axis=1, ignored=1),
                sample("line", normal(4), ints(low=0, high=3), axis=0),
                sample("empty", normal(0, 4), ints(0, low=0, high=3), axis=1),
                sample("size_1", normal(1, 1), ints(1, low=0, high=0), axis=1),
                sample("strided", strided(normal(3, 4)), ints(3, low=0, high=3), axis=1),
                sample("special", special(4, 6), ints(4, low=0, high=5), axis=1),
            ),
            "For each example the negative logarithm of softmax along an axis at its label; 0 where"
            " the label is `ignored`. Any other label that is negative or too large is an error.",
            grad=_entropy_grad,
        ),
        splits=_entropy_splits,
    ),
    composite(
        "mse",
        (2, 2),
        (),
        _require_square,
        _square,
        (
            sample("plane", normal(3, 4), normal(3, 4)),
            sample("line", normal(700), normal(700)),
            sample("scalar", normal(), normal()),
            sample("empty", normal(0, 2), normal(0, 2)),
            sample("size_1", normal(1), normal(1)),
            sample("strided", strided(normal(3, 4)), normal(3, 4)),
            sample("special", special(3, 3), normal(3, 3)),
        ),
        "The mean of the squares of the differences, a scalar; NaN for nothing.",
    ),
)
