"""huber and smooth_l1, element by element. Owns: their declarations.

Where they bend is an input, a scalar: attributes have no fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import expression
from gpugoblin.catalog.composite import Require, composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import same_dtype, shapes_error
from gpugoblin.catalog.samples import normal, positive, sample, special, strided
from gpugoblin.catalog.spec import FLOATS, Attributes, Builder, TensorSpec

__all__ = ["OPERATORS"]


def _require(name: str) -> Require:
    def check(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
        same_dtype(name, inputs, FLOATS)
        if inputs[0].shape != inputs[1].shape:
            raise shapes_error(name, inputs, "the first two must be equal")
        if inputs[2].rank:
            raise shapes_error(name, inputs, "the third must be a scalar")

    return check


def _huber(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    dtype = builder.spec(inputs[0]).dtype

    def write(build: FormulaBuilder, x: int, y: int, bend: int) -> int:
        half = build.const(dtype, 0.5)
        gap = build.call("sub", x, y)
        size = build.call("abs", gap)
        near = build.call("mul", half, build.call("mul", gap, gap))
        far = build.call("mul", bend, build.call("sub", size, build.call("mul", half, bend)))
        return build.call("where", build.call("le", size, bend), near, far)

    return (expression(builder, inputs, write),)


def _smooth(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    dtype = builder.spec(inputs[0]).dtype

    def write(build: FormulaBuilder, x: int, y: int, bend: int) -> int:
        half, one = build.const(dtype, 0.5), build.const(dtype, 1.0)
        gap = build.call("sub", x, y)
        size = build.call("abs", gap)
        # Without a bend nothing is near, and the quotient must not spoil the derivative.
        bends = build.call("gt", bend, build.const(dtype, 0.0))
        wide = build.call("where", bends, bend, one)
        near = build.call("div", build.call("mul", half, build.call("mul", gap, gap)), wide)
        far = build.call("sub", size, build.call("mul", half, bend))
        return build.call("where", build.call("lt", size, bend), near, far)

    return (expression(builder, inputs, write),)


_SAMPLES: Final = (
    sample("plane", normal(3, 4), normal(3, 4), positive()),
    sample("line", normal(700), normal(700), positive()),
    sample("scalar", normal(), normal(), positive()),
    sample("empty", normal(0, 2), normal(0, 2), positive()),
    sample("size_1", normal(1), normal(1), positive()),
    sample("strided", strided(normal(3, 4)), normal(3, 4), positive()),
    sample("special", special(3, 3), normal(3, 3), positive()),
)

OPERATORS: Final = (
    composite(
        "huber",
        (3, 3),
        (),
        _require("huber"),
        _huber,
        _SAMPLES,
        "Half the square of the difference d of two inputs where |d| is at most the third, a "
        "scalar b, and b (|d| - b/2) elsewhere.",
    ),
    composite(
        "smooth_l1",
        (3, 3),
        (),
        _require("smooth_l1"),
        _smooth,
        _SAMPLES,
        "Half the square of the difference d of two inputs over the third, a scalar b, where |d| "
        "is below b, and |d| - b/2 elsewhere; |d| everywhere if b is 0.",
    ),
)
