"""sort and histogram. Owns: their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import expression, filled, reshaped
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import (
    bool_attribute,
    int_attribute,
    require_axis,
    require_dtype,
    require_rank,
    same_dtype,
    shapes_error,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided
from gpugoblin.catalog.spec import NUMBERS, Attribute, Attributes, Builder, TensorSpec

__all__ = ["OPERATORS"]


def _require_sort(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    require_dtype("sort", inputs[0], NUMBERS)
    require_rank("sort", inputs[0], 1)
    require_axis("sort", "axis", int_attribute(attributes, "axis"), inputs[0].rank)


def _sort(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    (value,) = inputs
    axis, spec = int_attribute(attributes, "axis"), builder.spec(value)
    if spec.shape[axis] == 0:
        return value, filled(builder, TensorSpec("int64", spec.shape))
    largest = bool_attribute(attributes, "descending")
    return builder.add_many("topk", [value], axis=axis, k=spec.shape[axis], largest=largest)


def _require_histogram(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    same_dtype("histogram", inputs, NUMBERS)
    if inputs[1].rank != 1 or inputs[1].shape[0] < 2:
        raise shapes_error("histogram", inputs, "two or more edges in a line are wanted")


def _histogram(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    """The edges are sorted by `topk`; what is outside goes to a bin that is left out."""
    values, edges = inputs
    spec, bins = builder.spec(values), builder.spec(edges).shape[0] - 1
    flat = reshaped(builder, values, (spec.count,))
    ordered = builder.add("topk", [edges], axis=0, k=bins + 1, largest=False)
    last = builder.add("slice", [ordered], start=(bins,), stop=(bins + 1,), step=(1,))
    reached = builder.add("searchsorted", [ordered, flat], right=True)

    def place(build: FormulaBuilder, count: int, value: int, top: int) -> int:
        one, most = build.const("int64", 1), build.const("int64", bins)
        own = build.call("sub", count, one)
        own = build.call("where", build.call("eq", value, top), build.call("sub", most, one), own)
        below = build.call("lt", own, build.const("int64", 0))
        return build.call("where", below, most, own)

    places = expression(builder, [reached, flat, last], place)
    zeros = filled(builder, TensorSpec("int64", (bins + 1,)))
    ones = filled(builder, TensorSpec("int64", (spec.count,)), 1)
    counts = builder.add("scatter", [zeros, places, ones], axis=0, function="add")
    return (builder.add("slice", [counts], start=(0,), stop=(bins,), step=(1,)),)


OPERATORS: Final = (
    composite(
        "sort",
        (1, 1),
        (
            Attribute("axis", "int"),
            Attribute("descending", "bool", required=False, default=False),
        ),
        _require_sort,
        _sort,
        (
            sample("rows", normal(3, 9), axis=1),
            sample("descending", normal(7, 2), axis=0, descending=True),
            sample("ties", ints(3, 9, low=0, high=2), axis=1),
            sample("empty", normal(0, 3), axis=0),
            sample("size_1", normal(1), axis=0),
            sample("strided", strided(normal(3, 5)), axis=1),
            sample("special", special(3, 7), axis=1),
            sample("int64", ints(2, 8, dtype="int64"), axis=1, descending=True),
        ),
        "The elements along an axis in order, and their int64 indices. NaN counts as larger than "
        "any number; equals keep their order.",
    ),
    composite(
        "histogram",
        (2, 2),
        (),
        _require_histogram,
        _histogram,
        (
            sample("plane", normal(30, 4), normal(6)),
            sample("integers", ints(50), ints(5)),
            sample("empty", normal(0), normal(3)),
            sample("size_1", normal(1), normal(2)),
            sample("strided", strided(normal(9)), strided(normal(4))),
            sample("special", special(20), normal(5)),
        ),
        "How many elements of the first input lie in each bin between neighbors of the second, its "
        "edges, which need not be sorted: from an edge below the next, and in the last bin the "
        "last edge too. Elements outside are not counted.",
    ),
)
