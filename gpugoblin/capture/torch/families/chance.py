"""Draws from other distributions than the uniform and the normal. Owns: those ATen operators.

All are made from the uniform numbers of the catalog's counter.
"""

from __future__ import annotations

import math
from typing import Any

from gpugoblin.capture.torch.context import Context
from gpugoblin.capture.torch.families.creation import draw
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value
from gpugoblin.catalog.formula_build import FormulaBuilder

__all__: list[str] = []


def _waits(c: Context, shape: tuple[int, ...]) -> Value:
    """Exponentially distributed numbers above 0."""
    least = c.number(2.0**-25, "float32")
    share = c.call("max", draw(c, "uniform", shape), least)
    return c.formula((share,), lambda f, u: f.call("neg", f.call("log", u)))


@aten("exponential")
def exponential(c: Context, x: Value, rate: float = 1.0, **_: Any) -> Value:
    return c.call("div", _waits(c, c.shape(x)), c.number(float(rate), "float32"))


@aten("geometric")
def geometric(c: Context, x: Value, p: float, **_: Any) -> Value:
    rate = c.number(-math.log1p(-p), "float32")
    waits = c.call("ceil", c.call("div", _waits(c, c.shape(x)), rate))
    return c.cast(c.call("max", waits, c.number(1.0, "float32")), c.dtype(x))


@aten("cauchy")
def cauchy(c: Context, x: Value, median: float = 0.0, sigma: float = 1.0, **_: Any) -> Value:
    numbers = [c.number(one, "float32") for one in (0.5, math.pi, sigma, median)]

    def write(f: FormulaBuilder, u: int, half: int, pi: int, width: int, middle: int) -> int:
        turn = f.call("tan", f.call("mul", f.call("sub", u, half), pi))
        return f.call("add", f.call("mul", turn, width), middle)

    return c.formula((draw(c, "uniform", c.shape(x)), *numbers), write)


@aten("log_normal")
def log_normal(c: Context, x: Value, mean: float = 1.0, std: float = 2.0, **_: Any) -> Value:
    numbers = [c.number(one, "float32") for one in (std, mean)]
    line = draw(c, "normal", c.shape(x))
    return c.formula(
        (line, *numbers), lambda f, u, w, s: f.call("exp", f.call("add", f.call("mul", u, w), s))
    )


@aten("multinomial")
def multinomial(
    c: Context, x: Value, count: int, replacement: bool = False, generator: Any = None
) -> Value:
    """Without replacement: the smallest of exponential waits by weight; with: by running sums."""
    axis = len(c.shape(x)) - 1
    if not replacement:
        score = c.call("div", x, _waits(c, c.shape(x)))
        return c.ops("topk", [score], axis=axis, k=count, largest=True)[1]
    running = c.op("scan_reduce", [x], axis=axis, function="sum")
    total = c.cut(running, axis, c.shape(x)[axis] - 1, c.shape(x)[axis])
    wanted = c.call("mul", draw(c, "uniform", (*c.shape(x)[:-1], count)), total)
    found = c.op("searchsorted", [running, wanted], right=True)
    last = c.number(c.shape(x)[axis] - 1, "int64")
    return c.call("min", c.cast(found, "int64"), last)


@aten("randperm")
def randperm(c: Context, count: int, *_: Any, **__: Any) -> Value:
    return c.ops("sort", [draw(c, "uniform", (count,))], axis=0)[1]


@aten("rrelu_with_noise_functional", "rrelu_with_noise")
def rrelu(
    c: Context,
    x: Value,
    noise: Value,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Value, Value]:
    """Slopes below 0 are drawn while training, and their middle otherwise."""
    one, zero = c.number(1.0, c.dtype(x)), c.number(0.0, c.dtype(x))
    if training:
        numbers = (c.number(upper - lower, "float32"), c.number(lower, "float32"))
        slope = c.formula(
            (draw(c, "uniform", c.shape(x)), *numbers),
            lambda f, u, w, s: f.call("add", f.call("mul", u, w), s),
        )
    else:
        slope = c.number((lower + upper) / 2, c.dtype(x))
    shown = c.call("where", c.call("gt", x, zero), one, slope)
    return c.call("mul", x, shown), shown
