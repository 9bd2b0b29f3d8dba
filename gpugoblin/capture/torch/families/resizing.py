"""Resizing with antialiasing. Owns: those ATen operators.

Every axis is a product with a matrix of shares: what each place of the result takes from each place
of the source. The other ways of resizing are decomposed by torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gpugoblin.capture.torch.context import Context
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value
from gpugoblin.catalog.spec import Array

__all__ = ["product_along"]


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float) -> float:
    """Keys' cubic with a = -0.5, as Pillow and torch have it for antialiasing."""
    a, x = -0.5, abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def _shares(
    extent: int, size: int, scale: float, reach: float, weight: Callable[[float], float]
) -> Array:
    """[extent, size]: the filter is as wide as the step between places of the result."""
    stretch = max(scale, 1.0)
    support = reach * stretch
    found = np.zeros((extent, size))
    for place in range(size):
        center = scale * (place + 0.5)
        first = max(0, int(center - support + 0.5))
        last = min(extent, int(center + support + 0.5))
        line = [weight((at - center + 0.5) / stretch) for at in range(first, last)]
        total = math.fsum(line)
        found[first:last, place] = [one / total if total else 0.0 for one in line]
    return found.astype(np.float32)


def product_along(c: Context, x: Value, axis: int, shares: Array) -> Value:
    """The axis of extent n through a matrix [n, m]."""
    rank = len(c.shape(x))
    order = [*(n for n in range(rank) if n != axis), axis]
    turned = c.permute(x, order)
    rows = c.reshape(turned, (math.prod(c.shape(turned)[:-1]), shares.shape[0]))
    found = c.op("matmul", [rows, c.cast(c.constant(shares), c.dtype(x))])
    back = c.reshape(found, (*c.shape(turned)[:-1], shares.shape[1]))
    return c.permute(back, [order.index(n) for n in range(rank)])


def _resized(
    c: Context,
    x: Value,
    sizes: Sequence[int],
    corners: bool,
    scales: Sequence[float | None],
    reach: float,
    weight: Callable[[float], float],
) -> Value:
    first = len(c.shape(x)) - len(sizes)
    for place, (size, given) in enumerate(zip(sizes, scales, strict=True)):
        extent = c.shape(x)[first + place]
        if corners:
            scale = (extent - 1) / (size - 1) if size > 1 else 0.0
        else:
            scale = 1.0 / given if given else extent / size
        x = product_along(c, x, first + place, _shares(extent, size, scale, reach, weight))
    return x


@aten("_upsample_bilinear2d_aa")
def bilinear(
    c: Context,
    x: Value,
    sizes: Sequence[int],
    corners: bool,
    high: float | None = None,
    wide: float | None = None,
) -> Value:
    return _resized(c, x, sizes, corners, (high, wide), 1.0, _triangle)


@aten("_upsample_bicubic2d_aa")
def bicubic(
    c: Context,
    x: Value,
    sizes: Sequence[int],
    corners: bool,
    high: float | None = None,
    wide: float | None = None,
) -> Value:
    return _resized(c, x, sizes, corners, (high, wide), 2.0, _cubic)
