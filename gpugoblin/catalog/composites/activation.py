"""softmax, log_softmax, gelu and silu. Owns: their declarations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import call, expression, reduced
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import (
    int_attribute,
    require_axis,
    require_dtype,
    require_rank,
    text_attribute,
)
from gpugoblin.catalog.samples import normal, sample, special, strided
from gpugoblin.catalog.spec import FLOATS, Attribute, Attributes, Builder, TensorSpec

__all__ = ["OPERATORS", "log_softmax_steps", "softmax_steps"]


def _require_axis(name: str, inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    require_dtype(name, inputs[0], FLOATS)
    require_rank(name, inputs[0], 1)
    require_axis(name, "axis", int_attribute(attributes, "axis"), inputs[0].rank)


def _shifted_exp(build: FormulaBuilder, x: int, most: int) -> int:
    return build.call("exp", build.call("sub", x, most))


def softmax_steps(builder: Builder, value: int, axis: int) -> int:
    """exp(x - max) / sum: the largest exponent is 0, so nothing overflows."""
    if builder.spec(value).shape[axis] == 0:
        return value
    most = reduced(builder, "max", value, (axis,))
    powers = expression(builder, [value, most], _shifted_exp)
    return call(builder, "div", powers, reduced(builder, "sum", powers, (axis,)))


def log_softmax_steps(builder: Builder, value: int, axis: int) -> int:
    """x - max - log(sum)."""
    if builder.spec(value).shape[axis] == 0:
        return value
    most = reduced(builder, "max", value, (axis,))
    powers = expression(builder, [value, most], _shifted_exp)
    total = reduced(builder, "sum", powers, (axis,))

    def write(build: FormulaBuilder, x: int, m: int, s: int) -> int:
        return build.call("sub", build.call("sub", x, m), build.call("log", s))

    return expression(builder, [value, most, total], write)


def _softmax_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """y (s - sum(s y))."""
    (seed,), (result,) = seeds, outputs
    if seed is None:
        return (None,)
    axis = int_attribute(attributes, "axis")
    total = reduced(builder, "sum", call(builder, "mul", seed, result), (axis,))

    def write(build: FormulaBuilder, y: int, s: int, t: int) -> int:
        return build.call("mul", y, build.call("sub", s, t))

    return (expression(builder, [result, seed, total], write),)


def _log_softmax_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """s - exp(y) sum(s)."""
    (seed,), (result,) = seeds, outputs
    if seed is None:
        return (None,)
    total = reduced(builder, "sum", seed, (int_attribute(attributes, "axis"),))

    def write(build: FormulaBuilder, y: int, s: int, t: int) -> int:
        return build.call("sub", s, build.call("mul", build.call("exp", y), t))

    return (expression(builder, [result, seed, total], write),)


def _gelu(build: FormulaBuilder, x: int) -> int:
    inner = build.call("erf", build.call("mul", x, build.real(math.sqrt(0.5))))
    half = build.call("mul", x, build.real(0.5))
    return build.call("mul", half, build.call("add", inner, build.real(1.0)))


def _gelu_tanh(build: FormulaBuilder, x: int) -> int:
    cube = build.call("mul", x, build.call("mul", x, x))
    bent = build.call("add", x, build.call("mul", cube, build.real(0.044715)))
    inner = build.call("mul", bent, build.real(math.sqrt(2.0 / math.pi)))
    half = build.call("mul", x, build.real(0.5))
    one = build.real(1.0)
    return build.call("mul", half, build.call("add", build.call("tanh", inner), one))


def _silu(build: FormulaBuilder, x: int) -> int:
    return build.call("mul", x, build.call("sigmoid", x))


_AXIS: Final = (Attribute("axis", "int"),)
_ROWS: Final = (
    sample("rows", normal(3, 7), axis=1),
    sample("columns", normal(4, 3, 2, scale=9.0), axis=1),
    sample("large", normal(2, 600, scale=40.0), axis=1),
    sample("empty", normal(0, 3), axis=1),
    sample("empty_axis", normal(3, 0), axis=1),
    sample("size_1", normal(1), axis=0),
    sample("strided", strided(normal(3, 5)), axis=1),
    sample("special", special(4, 6), axis=1),
)
_ELEMENTS: Final = (
    sample("plane", normal(3, 5, scale=3.0)),
    sample("scalar", normal()),
    sample("empty", normal(0, 3)),
    sample("size_1", normal(1)),
    sample("strided", strided(normal(3, 5))),
    sample("special", special(4, 6)),
)

OPERATORS: Final = (
    composite(
        "softmax",
        (1, 1),
        _AXIS,
        lambda inputs, given: _require_axis("softmax", inputs, given),
        lambda b, inputs, given: (softmax_steps(b, inputs[0], int_attribute(given, "axis")),),
        _ROWS,
        "exp(x) over its sum along an axis.",
        _softmax_grad,
    ),
    composite(
        "log_softmax",
        (1, 1),
        _AXIS,
        lambda inputs, given: _require_axis("log_softmax", inputs, given),
        lambda b, inputs, given: (log_softmax_steps(b, inputs[0], int_attribute(given, "axis")),),
        _ROWS,
        "The logarithm of softmax, made without it.",
        _log_softmax_grad,
    ),
    composite(
        "gelu",
        (1, 1),
        (
            Attribute(
                "approximation", "choice", required=False, default="none", choices=("none", "tanh")
            ),
        ),
        lambda inputs, given: require_dtype("gelu", inputs[0], FLOATS),
        lambda b, inputs, given: (
            expression(
                b,
                inputs,
                _gelu if text_attribute(given, "approximation") == "none" else _gelu_tanh,
            ),
        ),
        (*_ELEMENTS, sample("tanh", normal(3, 4, scale=3.0), approximation="tanh")),
        "x times the normal distribution function of x, or its approximation by tanh.",
    ),
    composite(
        "silu",
        (1, 1),
        (),
        lambda inputs, given: require_dtype("silu", inputs[0], FLOATS),
        lambda b, inputs, given: (expression(b, inputs, _silu),),
        _ELEMENTS,
        "x sigmoid(x).",
    ),
)
