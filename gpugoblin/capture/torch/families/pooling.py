"""Pooling. Owns: those ATen operators.

An adaptive average with uneven windows is a product with a matrix of shares, axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from gpugoblin.capture.torch.context import Context
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value

__all__ = ["each", "windows"]


def each(given: int | Sequence[int], rank: int) -> tuple[int, ...]:
    if isinstance(given, int):
        return (given,) * rank
    return tuple(given) if len(given) == rank else (given[0],) * rank


def windows(
    c: Context,
    x: Value,
    rank: int,
    window: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> dict[str, tuple[int, ...]]:
    """The attributes of `pool`; with ceil_mode the last window may begin inside and end beyond."""
    window = each(window, rank)
    stride = each(stride, rank) if stride else window
    low, dilation = each(padding, rank), each(dilation, rank)
    high = []
    for axis, extent in enumerate(c.shape(x)[-rank:]):
        reach = dilation[axis] * (window[axis] - 1) + 1
        room = extent + 2 * low[axis] - reach
        count = room // stride[axis] + 1
        if ceil_mode:
            count = -(-room // stride[axis]) + 1
            if (count - 1) * stride[axis] >= extent + low[axis]:
                count -= 1
        high.append(max(low[axis], (count - 1) * stride[axis] + reach - extent - low[axis]))
    return {
        "window": window,
        "stride": stride,
        "low": low,
        "high": tuple(high),
        "dilation": dilation,
    }


def _maximum(
    rank: int,
    c: Context,
    x: Value,
    window: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Value:
    given = windows(c, x, rank, window, stride, padding, dilation, ceil_mode)
    return c.op("pool", [x], function="max", **given)


@aten("max_pool2d_with_indices")
def max_pool2d_with_indices(c: Context, x: Value, *given: Any, **named: Any) -> tuple[Value, None]:
    return _maximum(2, c, x, *given, **named), None


@aten("max_pool3d_with_indices")
def max_pool3d_with_indices(c: Context, x: Value, *given: Any, **named: Any) -> tuple[Value, None]:
    return _maximum(3, c, x, *given, **named), None


@aten("max_pool1d")
def max_pool1d(c: Context, x: Value, *given: Any, **named: Any) -> Value:
    return _maximum(1, c, x, *given, **named)


def _average(
    rank: int,
    c: Context,
    x: Value,
    window: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    given = windows(c, x, rank, window, stride, padding, 1, ceil_mode)
    total = c.op("pool", [x], function="sum", **given)
    if divisor_override is not None:
        return c.call("div", total, c.number(float(divisor_override), c.dtype(x)))
    counts = _counts(c.shape(x)[-rank:], given, count_include_pad, each(padding, rank))
    if (counts == counts.flat[0]).all():
        return c.call("div", total, c.number(float(counts.flat[0]), c.dtype(x)))
    return c.call("div", total, c.constant(counts.astype(c.dtype(x))))


def _counts(
    extents: Sequence[int],
    given: dict[str, tuple[int, ...]],
    padded: bool,
    padding: Sequence[int],
) -> Any:
    """How many elements each window counts: padding only as far as it was asked for."""
    lines = []
    for axis, extent in enumerate(extents):
        window, stride = given["window"][axis], given["stride"][axis]
        low, high = given["low"][axis], given["high"][axis]
        places = (extent + low + high - window) // stride + 1
        first = np.arange(places) * stride - low
        least, most = (-low, extent + padding[axis]) if padded else (0, extent)
        lines.append(np.minimum(first + window, most) - np.maximum(first, least))
    whole = np.ones((), np.int64)
    for line in lines:
        whole = whole[..., None] * line
    return whole


def _register_averages() -> None:
    from gpugoblin.capture.torch.registry import register

    for rank in (1, 2, 3):

        def rule(c: Context, x: Value, *given: Any, rank: int = rank, **named: Any) -> Value:
            return _average(rank, c, x, *given, **named)

        register(f"avg_pool{rank}d", rule)

        def adaptive(c: Context, x: Value, size: Any, rank: int = rank) -> Value:
            return _adaptive_average(c, x, each(size, rank))

        if rank > 1:
            register(f"_adaptive_avg_pool{rank}d", adaptive)
        register(f"adaptive_avg_pool{rank}d", adaptive)

        def largest(c: Context, x: Value, size: Any, rank: int = rank) -> tuple[Value, None]:
            return _adaptive_maximum(c, x, each(size, rank)), None

        register(f"adaptive_max_pool{rank}d", largest)


def _adaptive_average(c: Context, x: Value, sizes: Sequence[int]) -> Value:
    shape = c.shape(x)
    space = shape[-len(sizes) :]
    if all(size == 1 for size in sizes):
        axes = range(len(shape) - len(sizes), len(shape))
        return c.reduce("mean", x, axes, keepdims=True)
    if all(size and extent % size == 0 for size, extent in zip(sizes, space, strict=True)):
        window = tuple(extent // size for size, extent in zip(sizes, space, strict=True))
        return _average(len(sizes), c, x, window)
    for place, size in enumerate(sizes):
        axis = len(shape) - len(sizes) + place
        x = _shared(c, x, axis, size)
    return x


def _edges(extent: int, size: int) -> list[tuple[int, int]]:
    return [(n * extent // size, -(-(n + 1) * extent // size)) for n in range(size)]


def _shared(c: Context, x: Value, axis: int, size: int) -> Value:
    extent = c.shape(x)[axis]
    if extent == size:
        return x
    shares = np.zeros((extent, size), np.float32)
    for place, (first, last) in enumerate(_edges(extent, size)):
        shares[first:last, place] = 1.0 / (last - first)
    rank = len(c.shape(x))
    order = [*(n for n in range(rank) if n != axis), axis]
    turned = c.permute(x, order)
    rows = c.reshape(turned, (math.prod(c.shape(turned)[:-1]), extent))
    found = c.op("matmul", [rows, c.cast(c.constant(shares), c.dtype(x))])
    back = c.reshape(found, (*c.shape(turned)[:-1], size))
    return c.permute(back, [order.index(n) for n in range(rank)])


def _adaptive_maximum(c: Context, x: Value, sizes: Sequence[int]) -> Value:
    shape = c.shape(x)
    kept = len(shape) - len(sizes)
    space = shape[kept:]
    if all(size and extent % size == 0 for size, extent in zip(sizes, space, strict=True)):
        window = tuple(extent // size for size, extent in zip(sizes, space, strict=True))
        return _maximum(len(sizes), c, x, window)
    cells = []
    for box in product(*(_edges(n, size) for n, size in zip(space, sizes, strict=True))):
        part = x
        for place, (first, last) in enumerate(box):
            part = c.cut(part, kept + place, first, last)
        most = c.reduce("max", part, range(kept, len(shape)))
        cells.append(c.reshape(most, (*shape[:kept], 1)))
    return c.reshape(c.concat(cells, kept), (*shape[:kept], *sizes))


_register_averages()
