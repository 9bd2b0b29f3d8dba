"""Padding: with a number, by mirrors, by the edge, around. Owns: those ATen operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpugoblin.capture.torch.context import Context
from gpugoblin.capture.torch.families.complexes import eachwise
from gpugoblin.capture.torch.registry import aten, register
from gpugoblin.capture.torch.values import Scalar, Value

__all__: list[str] = []


def _per_axis(c: Context, x: Value, pad: Sequence[int]) -> list[tuple[int, int, int]]:
    """(axis, before, after), from torch's list that begins at the last axis."""
    rank = len(c.shape(x))
    return [
        (rank - 1 - place, pad[2 * place], pad[2 * place + 1]) for place in range(len(pad) // 2)
    ]


@aten("constant_pad_nd")
@eachwise
def constant_pad(c: Context, x: Value, pad: Sequence[int], value: Scalar = 0) -> Value:
    rank = len(c.shape(x))
    low, high = [0] * rank, [0] * rank
    for axis, before, after in _per_axis(c, x, pad):
        extent = c.shape(x)[axis]
        x = c.cut(x, axis, max(0, -before), extent - max(0, -after))
        low[axis], high[axis] = max(0, before), max(0, after)
    if not any(low) and not any(high):
        return x
    filler = c.number(value, c.dtype(x))
    return c.op("pad", [x, filler], low=tuple(low), high=tuple(high), between=(0,) * rank)


def _taken(mode: Any) -> Callable[..., Any]:
    def rule(c: Context, x: Value, pad: Sequence[int]) -> Value:
        for axis, before, after in _per_axis(c, x, pad):
            extent = c.shape(x)[axis]
            inner = np.arange(extent)[max(0, -before) : extent - max(0, -after)]
            places = np.pad(inner, (max(0, before), max(0, after)), mode=mode)
            x = c.op("gather", [x, c.constant(places.astype(np.int64))], axis=axis)
        return x

    return rule


for _rank in (1, 2, 3):
    register(f"reflection_pad{_rank}d", _taken("reflect"))
    register(f"replication_pad{_rank}d", _taken("edge"))
register("_pad_circular", _taken("wrap"))


@aten("im2col")
def im2col(
    c: Context,
    x: Value,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """Windows as columns: [n, channels * window, places]."""
    single = len(c.shape(x)) == 3
    data = c.reshape(x, (1, *c.shape(x))) if single else x
    data = constant_pad(c, data, [padding[1], padding[1], padding[0], padding[0]])
    count, channels, *space = c.shape(data)
    places = []
    for axis in (0, 1):
        reach = dilation[axis] * (kernel[axis] - 1) + 1
        steps = np.arange((space[axis] - reach) // stride[axis] + 1) * stride[axis]
        places.append(np.arange(kernel[axis])[:, None] * dilation[axis] + steps)
    rows = c.op("gather", [data, c.constant(places[0])], axis=2)
    both = c.op("gather", [rows, c.constant(places[1])], axis=4)
    turned = c.permute(both, (0, 1, 2, 4, 3, 5))
    window = channels * kernel[0] * kernel[1]
    spots = places[0].shape[1] * places[1].shape[1]
    found = c.reshape(turned, (count, window, spots))
    return c.reshape(found, (window, spots)) if single else found


@aten("col2im")
def col2im(
    c: Context,
    x: Value,
    size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """The transpose of im2col: what fell on one place is added."""
    single = len(c.shape(x)) == 2
    data = c.reshape(x, (1, *c.shape(x))) if single else x
    count, window, _ = c.shape(data)
    channels = window // (kernel[0] * kernel[1])
    room = [extent + 2 * padding[axis] for axis, extent in enumerate(size)]
    places = []
    for axis in (0, 1):
        reach = dilation[axis] * (kernel[axis] - 1) + 1
        steps = np.arange((room[axis] - reach) // stride[axis] + 1) * stride[axis]
        places.append(np.arange(kernel[axis])[:, None] * dilation[axis] + steps)
    flat = places[0][:, None, :, None] * room[1] + places[1][None, :, None, :]
    rows = c.reshape(data, (count, channels, flat.size))
    empty = c.filled((count, channels, room[0] * room[1]), 0.0, c.dtype(x))
    put = c.op("scatter", [empty, c.constant(flat.reshape(-1)), rows], axis=2, function="add")
    plane = c.reshape(put, (count, channels, *room))
    inner = constant_pad(c, plane, [-padding[1], -padding[1], -padding[0], -padding[0]])
    return c.reshape(inner, c.shape(inner)[1:]) if single else inner
