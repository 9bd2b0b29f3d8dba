"""compact and nonzero: what a mask selects, with a bound. Owns: their declarations.

Shapes do not depend on data, so the result has room for `limit` elements and says how many there
are. More than that is the error `index_out_of_range`: nothing is dropped in silence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import call, expression, filled, number, reduced, reshaped
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import int_attribute, require_dtype, require_rank, shapes_error
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import DTYPES, Attribute, Attributes, Builder, TensorSpec
from gpugoblin.errors import GraphError

__all__ = ["OPERATORS"]

_MOST: Final = 2**40 - 1


def _require_limit(name: str, attributes: Attributes) -> None:
    limit = int_attribute(attributes, "limit")
    if not 0 <= limit <= _MOST:
        raise GraphError(
            "attribute_invalid",
            operator=name,
            attribute="limit",
            value=limit,
            reason=f"0 to {_MOST} is wanted",
        )


def _require_compact(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    data, mask = inputs
    require_dtype("compact", data, tuple(DTYPES))
    require_dtype("compact (mask)", mask, ("bool",))
    require_rank("compact", data, 1)
    if mask.shape != data.shape[:1]:
        raise shapes_error("compact", inputs, "one bool for each part along the first axis")
    _require_limit("compact", attributes)


def _places(builder: Builder, mask: int, limit: int) -> tuple[int, int]:
    """Where each part goes (`limit` for those that are left out; too large for those that have no
    room), and how many are chosen."""
    wide = builder.add("cast", [mask], dtype="int64")
    reached = builder.add("scan_reduce", [wide], axis=0, function="sum")

    def place(build: FormulaBuilder, chosen: int, count: int) -> int:
        room = build.const("int64", limit)
        own = build.call("sub", count, build.const("int64", 1))
        too_many = build.call("ge", own, room)
        own = build.call("where", too_many, build.call("add", own, build.const("int64", 1)), own)
        return build.call("where", chosen, own, room)

    total = reduced(builder, "sum", wide, (0,), keepdims=False)
    return expression(builder, [mask, reached], place), total


def _put(builder: Builder, data: int, places: int, limit: int) -> int:
    """The parts at their places, zeros behind them."""
    spec = builder.spec(data)
    room = filled(builder, TensorSpec(spec.dtype, (limit + 1, *spec.shape[1:])))
    put = builder.add("scatter", [room, places, data], axis=0, function="set")
    rank = spec.rank
    return builder.add(
        "slice", [put], start=(0,) * rank, stop=(limit, *spec.shape[1:]), step=(1,) * rank
    )


def _compact(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    data, mask = inputs
    limit = int_attribute(given, "limit")
    places, total = _places(builder, mask, limit)
    return _put(builder, data, places, limit), total


def _require_nonzero(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    require_dtype("nonzero", inputs[0], ("bool",))
    require_rank("nonzero", inputs[0], 1)
    _require_limit("nonzero", attributes)


def _nonzero(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    """The places in C order, then taken apart into one number an axis."""
    (mask,) = inputs
    shape, limit = builder.spec(mask).shape, int_attribute(given, "limit")
    flat = reshaped(builder, mask, (math.prod(shape),))
    places, total = _places(builder, flat, limit)
    numbers = builder.add("iota", [], count=math.prod(shape), dtype="int64")
    left = _put(builder, numbers, places, limit)
    columns: list[int] = []
    for axis in range(len(shape) - 1):
        inner = number(builder, max(1, math.prod(shape[axis + 1 :])), "int64")
        columns.append(reshaped(builder, call(builder, "floordiv", left, inner), (limit, 1)))
        left = call(builder, "mod", left, inner)
    columns.append(reshaped(builder, left, (limit, 1)))
    if len(columns) == 1:
        return columns[0], total
    return builder.add("concat", columns, axis=1), total


_LIMIT: Final = (Attribute("limit", "int"),)

OPERATORS: Final = (
    composite(
        "compact",
        (2, 2),
        _LIMIT,
        _require_compact,
        _compact,
        (
            sample("rows", normal(6, 3), truth(6), limit=6),
            sample("line", normal(7), truth(7), limit=9),
            sample("integers", ints(5, 2), truth(5), limit=5),
            sample("bools", truth(4), truth(4), limit=4),
            sample("empty", normal(0, 3), truth(0), limit=2),
            sample("no_room", normal(0), truth(0), limit=0),
            sample("size_1", normal(1), truth(1), limit=1),
            sample("strided", strided(normal(5, 3)), strided(truth(5)), limit=5),
            sample("special", special(6, 3), truth(6), limit=7),
        ),
        "The parts along the first axis of the first input that the second, a mask, chooses, in "
        "their order: room for `limit` of them, zeros behind them, and their int64 number. More "
        "than `limit` are an error.",
    ),
    composite(
        "nonzero",
        (1, 1),
        _LIMIT,
        _require_nonzero,
        _nonzero,
        (
            sample("plane", truth(3, 4), limit=12),
            sample("line", truth(9), limit=10),
            sample("space", truth(2, 3, 2), limit=12),
            sample("empty", truth(0, 3), limit=2),
            sample("size_1", truth(1), limit=1),
            sample("strided", strided(truth(3, 5)), limit=15),
        ),
        "Where a mask is true, in C order: room for `limit` places of one int64 index an axis, "
        "zeros behind them, and their number. More than `limit` are an error.",
    ),
)
