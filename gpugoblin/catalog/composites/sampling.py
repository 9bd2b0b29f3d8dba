"""grid_sample: an image read at given positions. Owns: its declaration.

Positions are as in PyTorch: -1 and 1 are the first and the last element's middle (`corners`) or
outer edge, the first coordinate is along the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Final

from gpugoblin.catalog.building import call, expression, reshaped
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import bool_attribute, same_dtype, shapes_error, text_attribute
from gpugoblin.catalog.samples import Make, normal, sample, special, strided
from gpugoblin.catalog.spec import FLOATS, Attribute, Attributes, Builder, TensorSpec

__all__ = ["OPERATORS"]


def _require(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    data, grid = inputs
    same_dtype("grid_sample", inputs, FLOATS)
    if data.rank not in (3, 4, 5) or grid.rank != data.rank:
        raise shapes_error("grid_sample", inputs, "ranks of 3 to 5, both the same, are wanted")
    if grid.shape[-1] != data.rank - 2 or grid.shape[0] != data.shape[0]:
        reason = f"positions [{data.shape[0]}, ..., {data.rank - 2}] are wanted"
        raise shapes_error("grid_sample", inputs, reason)
    if 0 in data.shape[2:]:
        raise shapes_error("grid_sample", inputs, "the data have no elements")


def _position(builder: Builder, grid: int, axis: int, extent: int, attributes: Attributes) -> int:
    """Where along an axis of `extent` each point lies: [examples, points]."""
    spec = builder.spec(grid)
    count, place = spec.shape[-1], spec.shape[-1] - 1 - axis
    points = math.prod(spec.shape[1:-1])
    flat = reshaped(builder, grid, (spec.shape[0], points, count))
    part = builder.add(
        "slice",
        [flat],
        start=(0, 0, place),
        stop=(spec.shape[0], points, place + 1),
        step=(1, 1, 1),
    )
    corners = bool_attribute(attributes, "corners")
    padding = text_attribute(attributes, "padding")
    dtype = spec.dtype

    def write(build: FormulaBuilder, x: int) -> int:
        def const(value: float) -> int:
            return build.const(dtype, value)

        scaled = build.call("mul", build.call("add", x, const(1)), const((extent - corners) / 2))
        at = scaled if corners else build.call("sub", scaled, const(0.5))
        if padding == "reflection":
            at = _reflected(build, at, extent, corners, dtype)
        # Beyond the elements next to the edge all points are alike; so no index overflows.
        low, high = (-2, extent + 1) if padding == "zeros" else (0, extent - 1)
        return build.call("min", build.call("max", at, const(low)), const(high))

    return reshaped(builder, expression(builder, [part], write), (spec.shape[0], points))


def _reflected(build: FormulaBuilder, x: int, extent: int, corners: bool, dtype: str) -> int:
    """Mirrored at the middles (`corners`) or outer edges of the first and last elements."""
    low, span = (0.0, extent - 1.0) if corners else (-0.5, float(extent))
    if span == 0:
        return build.call("mul", x, build.const(dtype, 0.0))
    start, reach = build.const(dtype, low), build.const(dtype, span)
    inside = build.call(
        "mod", build.call("abs", build.call("sub", x, start)), build.const(dtype, 2 * span)
    )
    back = build.call("sub", build.const(dtype, 2 * span), inside)
    turned = build.call("where", build.call("le", inside, reach), inside, back)
    return build.call("add", turned, start)


def _sample(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    """Sums over the 2^d elements around each point, gathered with all their channels."""
    data, grid = inputs
    examples, channels, *space = builder.spec(data).shape
    nearest = text_attribute(attributes, "method") == "nearest"
    spots = [
        _position(builder, grid, axis, extent, attributes) for axis, extent in enumerate(space)
    ]
    firsts = [call(builder, "round" if nearest else "floor", spot) for spot in spots]
    rows = builder.add("permute", [data], axes=(0, *range(2, len(space) + 2), 1))
    rows = reshaped(builder, rows, (examples * math.prod(space), channels))
    total: int | None = None
    for corner in product((0,) if nearest else (0, 1), repeat=len(space)):
        share = _corner(builder, rows, [] if nearest else spots, firsts, corner, space)
        total = share if total is None else call(builder, "add", total, share)
    if total is None:
        raise ValueError("there is at least one element around a point")
    shaped = reshaped(builder, total, (examples, builder.spec(firsts[0]).shape[1], channels))
    turned = builder.add("permute", [shaped], axes=(0, 2, 1))
    return (reshaped(builder, turned, (examples, channels, *builder.spec(grid).shape[1:-1])),)


def _corner(
    builder: Builder,
    rows: int,
    spots: Sequence[int],
    firsts: Sequence[int],
    corner: Sequence[int],
    space: Sequence[int],
) -> int:
    """The elements at one corner around the points, times their weights: [points, channels].

    Args:
        spots: none where every weight is 1.
    """
    examples, points = builder.spec(firsts[0]).shape
    dtype = builder.spec(firsts[0]).dtype

    def index(build: FormulaBuilder, place: int, *lows: int) -> int:
        for low, step, extent in zip(lows, corner, space, strict=True):
            here = build.call("add", build.cast(low, "int64"), build.const("int64", step))
            here = build.call("max", here, build.const("int64", 0))
            here = build.call("min", here, build.const("int64", extent - 1))
            place = build.call("add", build.call("mul", place, build.const("int64", extent)), here)
        return place

    def inside(build: FormulaBuilder, *lows: int) -> int:
        found = build.const("bool", True)
        for low, step, extent in zip(lows, corner, space, strict=True):
            most = build.const(dtype, extent - 1.0 - step)
            found = build.call("and", found, build.call("le", low, most))
            found = build.call("and", found, build.call("ge", low, build.const(dtype, -step)))
        return found

    def weight(build: FormulaBuilder, *operands: int) -> int:
        half, found = len(operands) // 2, build.const(dtype, 1.0)
        for x, low, step in zip(operands[:half], operands[half:], corner, strict=True):
            share = build.call("sub", x, low)
            if not step:
                share = build.call("sub", build.const(dtype, 1.0), share)
            found = build.call("mul", found, share)
        return found

    def share(build: FormulaBuilder, known: int, value: int, *scale: int) -> int:
        scaled = build.call("mul", value, scale[0]) if scale else value
        return build.call("where", known, scaled, build.const(dtype, 0.0))

    column = (examples * points, 1)
    numbers = reshaped(builder, builder.add("iota", [], count=examples), (examples, 1))
    places = reshaped(builder, expression(builder, [numbers, *firsts], index), column[:1])
    operands = [
        reshaped(builder, expression(builder, firsts, inside), column),
        builder.add("gather", [rows, places], axis=0),
    ]
    if spots:
        operands.append(reshaped(builder, expression(builder, [*spots, *firsts], weight), column))
    return expression(builder, operands, share)


def _positions(*shape: int) -> Make:
    """Points of which some lie outside, none of them where a choice would be open."""
    return normal(*shape, scale=0.8)


OPERATORS: Final = (
    composite(
        "grid_sample",
        (2, 2),
        (
            Attribute("corners", "bool", required=False, default=False),
            Attribute("method", "choice", choices=("linear", "nearest")),
            Attribute("padding", "choice", choices=("border", "reflection", "zeros")),
        ),
        _require,
        _sample,
        (
            sample(
                "plane",
                *(normal(2, 3, 4, 5), _positions(2, 3, 2, 2)),
                method="linear",
                padding="zeros",
            ),
            sample(
                "corners",
                *(normal(1, 2, 4, 5), _positions(1, 3, 3, 2)),
                **{"method": "linear", "padding": "border", "corners": True},
            ),
            sample(
                "reflection",
                *(normal(1, 2, 4, 5), normal(1, 3, 3, 2, scale=2.0)),
                **{"method": "linear", "padding": "reflection"},
            ),
            sample(
                "mirrored",
                *(normal(1, 2, 4, 1), normal(1, 3, 3, 2, scale=2.0)),
                **{"method": "linear", "padding": "reflection", "corners": True},
            ),
            sample(
                "nearest",
                *(normal(2, 2, 4, 5), _positions(2, 2, 3, 2)),
                method="nearest",
                padding="zeros",
            ),
            sample("line", normal(2, 2, 7), _positions(2, 4, 1), method="linear", padding="border"),
            sample(
                "volume",
                *(normal(1, 2, 3, 4, 2), _positions(1, 2, 2, 2, 3)),
                method="linear",
                padding="zeros",
            ),
            sample("empty", normal(0, 2, 3), _positions(0, 4, 1), method="linear", padding="zeros"),
            sample(
                "size_1", normal(1, 1, 1), _positions(1, 1, 1), method="linear", padding="zeros"
            ),
            sample(
                "strided",
                *(strided(normal(1, 2, 5)), strided(_positions(1, 4, 1))),
                method="linear",
                padding="zeros",
            ),
            sample("special", special(1, 2, 7), special(1, 9, 1), method="linear", padding="zeros"),
        ),
        "The data [examples, channels, *space] read at positions [examples, *points, axes] from -1 "
        "to 1, the first along the last axis, which are the middles (corners) or outer edges of "
        "the elements at the ends: [examples, channels, *points].",
    ),
)
