"""Normalizations. Owns: those ATen operators; they stay composites of the catalog."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpugoblin.capture.torch.context import Context
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value
from gpugoblin.catalog.formula_build import FormulaBuilder

__all__: list[str] = []


def _affine(
    c: Context, x: Value, weight: Value | None, bias: Value | None, shape: Sequence[int]
) -> list[Value]:
    """Scale and shift as the composites take them; a shift alone gets a scale of 1."""
    if weight is None and bias is not None:
        weight = c.filled(shape, 1.0, c.dtype(x))
    return [one for one in (weight, bias) if one is not None]


def _eps(c: Context, x: Value, eps: float) -> Value:
    return c.number(float(eps), c.dtype(x))


@aten("layer_norm")
def layer_norm(
    c: Context,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Value:
    rank = len(c.shape(x))
    axes = tuple(range(rank - len(shape), rank))
    rest = _affine(c, x, weight, bias, shape)
    return c.op("layer_norm", [x, _eps(c, x, eps), *rest], axes=axes)


@aten("native_layer_norm")
def native_layer_norm(
    c: Context, x: Value, shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Value, Value, Value]:
    rank = len(c.shape(x))
    mean, scale = _moments(c, x, range(rank - len(shape), rank), eps)
    return layer_norm(c, x, shape, weight, bias, eps), mean, scale


def _moments(c: Context, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value]:
    """The mean, and one over the deviation; the builder drops them where nobody reads them."""
    mean = c.reduce("mean", x, axes, keepdims=True)
    variance = _variance(c, x, mean, axes)
    add = (variance, _eps(c, x, eps))
    return mean, c.formula(add, lambda f, v, e: f.call("rsqrt", f.call("add", v, e)))


def _variance(c: Context, x: Value, mean: Value, axes: Sequence[int]) -> Value:
    def write(f: FormulaBuilder, a: int, m: int) -> int:
        gap = f.call("sub", a, m)
        return f.call("mul", gap, gap)

    return c.reduce("mean", c.formula((x, mean), write), axes, keepdims=True)


@aten("rms_norm")
def rms_norm(
    c: Context,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    rank = len(c.shape(x))
    axes = tuple(range(rank - len(shape), rank))
    least = 1.1920928955078125e-07 if eps is None else eps
    rest = [] if weight is None else [weight]
    return c.op("rms_norm", [x, _eps(c, x, least), *rest], axes=axes)


@aten("_fused_rms_norm")
def fused_rms_norm(
    c: Context, x: Value, shape: Sequence[int], weight: Any, eps: float | None
) -> tuple[Value, None]:
    return rms_norm(c, x, shape, weight, eps), None


@aten("group_norm")
def group_norm(
    c: Context,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Value:
    rest = _affine(c, x, weight, bias, (c.shape(x)[1],))
    return c.op("group_norm", [x, _eps(c, x, eps), *rest], groups=groups)


@aten("native_group_norm")
def native_group_norm(
    c: Context,
    x: Value,
    weight: Any,
    bias: Any,
    count: int,
    channels: int,
    places: int,
    groups: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    grouped = c.reshape(x, (count, groups, channels // groups * places))
    mean, scale = _moments(c, grouped, (2,), eps)
    found = group_norm(c, x, groups, weight, bias, eps)
    return found, c.reshape(mean, (count, groups)), c.reshape(scale, (count, groups))


@aten("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    c: Context,
    x: Value,
    weight: Any,
    bias: Any,
    mean: Value,
    variance: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    rest = _affine(c, x, weight, bias, (c.shape(x)[1],))
    found = c.op("batch_norm", [x, _eps(c, x, eps), mean, variance, *rest], axis=1)
    empty = c.filled((0,), 0.0, c.dtype(x))
    return found, empty, empty


def _batch_training(
    c: Context, x: Value, weight: Any, bias: Any, eps: float
) -> tuple[Value, Value, Value, Value]:
    """The result, the mean, one over the deviation and the variance of the batch."""
    shape = c.shape(x)
    axes = (0, *range(2, len(shape)))
    line = (1, shape[1], *(1,) * (len(shape) - 2))
    rest = [c.reshape(one, line) for one in _affine(c, x, weight, bias, (shape[1],))]
    found = c.op("layer_norm", [x, _eps(c, x, eps), *rest], axes=axes)
    mean, scale = _moments(c, x, axes, eps)
    variance = _variance(c, x, mean, axes)
    flat = [c.reshape(one, (shape[1],)) for one in (mean, scale, variance)]
    return found, flat[0], flat[1], flat[2]


@aten("_native_batch_norm_legit_functional")
def batch_norm_functional(
    c: Context,
    x: Value,
    weight: Any,
    bias: Any,
    running_mean: Value,
    running_variance: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    if not training:
        plain = batch_norm_inference(
            c, x, weight, bias, running_mean, running_variance, momentum, eps
        )
        return (*plain, running_mean, running_variance)
    found, mean, scale, variance = _batch_training(c, x, weight, bias, eps)
    shape = c.shape(x)
    count = math.prod(shape) // max(1, shape[1])
    # Two whole numbers and not their ratio: both follow the batch, see graph/template.py.
    numbers = (c.number(float(count), c.dtype(x)), c.number(float(max(1, count - 1)), c.dtype(x)))
    unbiased = c.formula(
        (variance, *numbers), lambda f, v, n, m: f.call("div", f.call("mul", v, n), m)
    )
    moved = [
        _moved(c, old, new, momentum)
        for old, new in ((running_mean, mean), (running_variance, unbiased))
    ]
    return found, mean, scale, *moved


def _moved(c: Context, old: Value, new: Value, momentum: float) -> Value:
    shares = (c.number(1.0 - momentum, c.dtype(old)), c.number(momentum, c.dtype(old)))

    def write(f: FormulaBuilder, a: int, b: int, keep: int, take: int) -> int:
        return f.call("add", f.call("mul", a, keep), f.call("mul", b, take))

    return c.formula((old, new, *shares), write)


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    c: Context, x: Value, weight: Any, bias: Any, *rest: Any
) -> tuple[Value, ...]:
    eps = rest[-1]
    return _batch_training(c, x, weight, bias, eps)[:3]
