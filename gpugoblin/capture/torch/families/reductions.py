"""Reductions, running reductions and moments. Owns: those ATen operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gpugoblin.capture.torch.context import Context, Unsupported, normal_axes, normal_axis
from gpugoblin.capture.torch.families.arithmetic import absolute, power, truth
from gpugoblin.capture.torch.families.complexes import eachwise
from gpugoblin.capture.torch.registry import aten, register
from gpugoblin.capture.torch.values import Pair, Scalar, Value
from gpugoblin.catalog.along import take_along
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import DTYPES

__all__ = ["argument", "variance"]

_Axes = int | Sequence[int] | None


def _summable(c: Context, x: Value, dtype: object) -> Value:
    """Integers and bools are summed as int64, as torch does."""
    if dtype is not None:
        return c.cast(x, c.catalog_dtype(dtype))
    return x if c.floating(x) else c.cast(x, "int64")


@aten("sum")
@eachwise
def total(
    c: Context, x: Value, dim: _Axes = None, keepdim: bool = False, dtype: object = None
) -> Value:
    x = _summable(c, x, dtype)
    return c.reduce("sum", x, normal_axes(dim, len(c.shape(x))), keepdims=keepdim)


@aten("mean")
@eachwise
def mean(
    c: Context, x: Value, dim: _Axes = None, keepdim: bool = False, dtype: object = None
) -> Value:
    if dtype is not None:
        x = c.cast(x, c.catalog_dtype(dtype))
    return c.reduce("mean", x, normal_axes(dim, len(c.shape(x))), keepdims=keepdim)


@aten("prod")
def prod(
    c: Context, x: Value, dim: int | None = None, keepdim: bool = False, dtype: object = None
) -> Value:
    x = _summable(c, x, dtype)
    return c.reduce("prod", x, normal_axes(dim, len(c.shape(x))), keepdims=keepdim)


def _extreme(function: str) -> Callable[..., Any]:
    def rule(c: Context, x: Value, dim: _Axes = None, keepdim: bool = False) -> Value:
        axes = normal_axes(dim, len(c.shape(x)))
        if c.dtype(x) == "bool":
            return c.reduce("any" if function == "max" else "all", x, axes, keepdims=keepdim)
        return c.reduce(function, x, axes, keepdims=keepdim)

    return rule


register("amax", _extreme("max"))
register("amin", _extreme("min"))
register("max", _extreme("max"))
register("min", _extreme("min"))


@aten("aminmax")
def aminmax(c: Context, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    return _extreme("min")(c, x, dim, keepdim), _extreme("max")(c, x, dim, keepdim)


def argument(c: Context, function: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """The index of the extreme along an axis, or of the flattened tensor."""
    shape = c.shape(x)
    if dim is None:
        flat = c.reshape(x, (c.spec(x).count,))
        found = c.op("reduce_arg", [flat], axis=0, function=function)
        return c.reshape(found, (1,) * len(shape)) if keepdim else found
    line = x if shape else c.reshape(x, (1,))
    axis = normal_axis(dim, len(shape))
    found = c.op("reduce_arg", [line], axis=axis, function=function, keepdims=keepdim)
    return found if shape else c.reshape(found, ())


@aten("argmax")
def argmax(c: Context, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return argument(c, "argmax", x, dim, keepdim)


@aten("argmin")
def argmin(c: Context, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return argument(c, "argmin", x, dim, keepdim)


def _with_index(function: str) -> Callable[..., Any]:
    """The extreme by its index, so that the gradient goes to that one alone, as in torch."""

    def rule(c: Context, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        shape = c.shape(x)
        if not shape:
            return x, c.number(0, "int64")
        axis = normal_axis(dim, len(shape))
        place = argument(c, function, x, axis, True)
        best = Value(take_along(c.builder, x.number, place.number, axis))
        if keepdim:
            return best, place
        final = (*shape[:axis], *shape[axis + 1 :])
        return c.reshape(best, final), c.reshape(place, final)

    return rule


register("max.dim", _with_index("argmax"))
register("min.dim", _with_index("argmin"))


@aten("any")
def anything(c: Context, x: Value, dim: _Axes = None, keepdim: bool = False) -> Value:
    return c.reduce("any", truth(c, x), normal_axes(dim, len(c.shape(x))), keepdims=keepdim)


@aten("all")
def everything(c: Context, x: Value, dim: _Axes = None, keepdim: bool = False) -> Value:
    return c.reduce("all", truth(c, x), normal_axes(dim, len(c.shape(x))), keepdims=keepdim)


# moments


def variance(
    c: Context, x: Value, dim: _Axes, correction: Scalar | None, keepdim: bool
) -> tuple[Value, Value]:
    """The variance and the mean, in two passes, which do not cancel."""
    axes = normal_axes(dim, len(c.shape(x)))
    count = math.prod(c.shape(x)[axis] for axis in axes)
    middle = c.reduce("mean", x, axes, keepdims=True)

    def write(f: FormulaBuilder, a: int, m: int) -> int:
        gap = f.call("sub", a, m)
        return f.call("mul", gap, gap)

    spread = c.reduce("sum", c.formula((x, middle), write), axes, keepdims=keepdim)
    share = count - (1 if correction is None else correction)
    found = c.call("div", spread, c.number(float(max(0, share)), c.dtype(x)))
    return found, middle if keepdim else c.reshape(middle, c.shape(found))


def _correction(given: Scalar | None, unbiased: Any) -> Scalar | None:
    if isinstance(unbiased, bool):
        return 1 if unbiased else 0
    return given


@aten("var")
def var(c: Context, x: Value, dim: Any = None, *rest: Any, **named: Any) -> Value:
    return _moments(c, x, dim, *rest, **named)[0]


@aten("std")
def std(c: Context, x: Value, dim: Any = None, *rest: Any, **named: Any) -> Value:
    return c.call("sqrt", _moments(c, x, dim, *rest, **named)[0])


@aten("var_mean")
def var_mean(c: Context, x: Value, dim: Any = None, *rest: Any, **named: Any) -> Any:
    return _moments(c, x, dim, *rest, **named)


@aten("std_mean")
def std_mean(c: Context, x: Value, dim: Any = None, *rest: Any, **named: Any) -> Any:
    found, middle = _moments(c, x, dim, *rest, **named)
    return c.call("sqrt", found), middle


def _moments(
    c: Context,
    x: Value,
    dim: Any,
    *rest: Any,
    correction: Scalar | None = None,
    keepdim: bool = False,
) -> tuple[Value, Value]:
    """The overloads: var(unbiased), var.dim(dim, unbiased, keepdim), var.correction."""
    if isinstance(dim, bool):
        return variance(c, x, None, int(dim), False)
    if rest:
        correction = _correction(correction, rest[0])
        keepdim = rest[1] if len(rest) > 1 else keepdim
    return variance(c, x, dim, correction, keepdim)


@aten("linalg_vector_norm")
def vector_norm(
    c: Context,
    x: Any,
    ord: Scalar = 2,
    dim: _Axes = None,
    keepdim: bool = False,
    dtype: object = None,
) -> Value:
    size = absolute(c, x) if isinstance(x, Pair) or ord != 2 else x
    size = c.as_float(size)
    axes = normal_axes(dim, len(c.shape(size)))
    if ord == math.inf:
        return c.reduce("max", size, axes, keepdims=keepdim)
    if ord == -math.inf:
        return c.reduce("min", size, axes, keepdims=keepdim)
    if ord == 0:
        present = c.cast(c.cast(size, "bool"), c.dtype(size))
        return c.reduce("sum", present, axes, keepdims=keepdim)
    if ord == 1:
        return c.reduce("sum", size, axes, keepdims=keepdim)
    if ord == 2:
        square = c.reduce("sum", c.call("mul", size, size), axes, keepdims=keepdim)
        return root(c, square)
    powers = c.reduce("sum", power(c, size, float(ord)), axes, keepdims=keepdim)
    return power(c, powers, 1.0 / ord)


def root(c: Context, square: Value) -> Value:
    """The square root, with the derivative 0 at 0 that torch gives to a norm."""
    zero, one = c.number(0.0, c.dtype(square)), c.number(1.0, c.dtype(square))

    def write(f: FormulaBuilder, s: int, none: int, unit: int) -> int:
        empty = f.call("eq", s, none)
        return f.call("where", empty, none, f.call("sqrt", f.call("where", empty, unit, s)))

    return c.formula((square, zero, one), write)


@aten("norm")
def norm(
    c: Context, x: Any, p: Scalar | None = 2, dim: _Axes = None, keepdim: bool = False, **_: Any
) -> Value:
    return vector_norm(c, x, 2 if p is None else p, dim, keepdim)


@aten("logsumexp")
def logsumexp(c: Context, x: Value, dim: _Axes, keepdim: bool = False) -> Value:
    """With the largest taken off; it is a constant for the derivative where it is infinite."""
    axes = normal_axes(dim, len(c.shape(x)))
    if not c.shape(x):
        return x
    most = c.reduce("max", x, axes, keepdims=True)
    zero = c.number(0.0, c.dtype(x))

    def shifted(f: FormulaBuilder, a: int, m: int, z: int) -> int:
        safe = f.call("where", f.call("isfinite", m), m, z)
        return f.call("exp", f.call("sub", a, safe))

    powers = c.reduce("sum", c.formula((x, most, zero), shifted), axes, keepdims=True)

    def write(f: FormulaBuilder, s: int, m: int, z: int) -> int:
        safe = f.call("where", f.call("isfinite", m), m, z)
        return f.call("add", f.call("log", s), safe)

    found = c.formula((powers, most, zero), write)
    return found if keepdim else c.reshape(found, _without(c.shape(x), axes))


def _without(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


# running reductions


def _running(c: Context, function: str, x: Value, dim: int) -> Value:
    if not c.shape(x):
        return x
    axis = normal_axis(dim, len(c.shape(x)))
    return c.op("scan_reduce", [x], axis=axis, function=function)


@aten("cumsum")
@eachwise
def cumsum(c: Context, x: Value, dim: int, dtype: object = None) -> Value:
    return _running(c, "sum", _summable(c, x, dtype), dim)


@aten("cumprod")
def cumprod(c: Context, x: Value, dim: int, dtype: object = None) -> Value:
    return _running(c, "prod", _summable(c, x, dtype), dim)


def _running_extreme(function: str) -> Callable[..., Any]:
    def rule(c: Context, x: Value, dim: int) -> tuple[Value, Value]:
        """The index: the last place so far at which the running extreme was met."""
        best = _running(c, function, x, dim)
        if not c.shape(x):
            return best, c.number(0, "int64")
        axis = normal_axis(dim, len(c.shape(x)))
        line = (-1, *(1,) * (len(c.shape(x)) - axis - 1))
        places = c.reshape(c.iota(c.shape(x)[axis]), (c.shape(x)[axis], *line[1:]))
        met = c.call("eq", x, best)
        none = c.number(0, "int64")
        index = _running(c, "max", c.spread(c.call("where", met, places, none), c.shape(x)), axis)
        taken = Value(take_along(c.builder, x.number, index.number, axis))
        return taken, index

    return rule


register("cummax", _running_extreme("max"))
register("cummin", _running_extreme("min"))


@aten("logcumsumexp")
def logcumsumexp(c: Context, x: Value, dim: int) -> Value:
    if DTYPES[c.dtype(x)].kind != "f":
        raise Unsupported("logcumsumexp of integers")
    axis = normal_axis(dim, len(c.shape(x)))
    most = c.reduce("max", x, (axis,), keepdims=True)
    powers = c.formula((x, most), lambda f, a, m: f.call("exp", f.call("sub", a, m)))
    running = _running(c, "sum", powers, axis)
    return c.formula((running, most), lambda f, s, m: f.call("add", f.call("log", s), m))
