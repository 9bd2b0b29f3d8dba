"""take_along: elements by an index for each. Owns: its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.along import take_along
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.rules import (
    int_attribute,
    require_axis,
    require_dtype,
    require_rank,
    shapes_error,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import DTYPES, Attribute, Attributes, Builder, TensorSpec

__all__ = ["OPERATORS"]


def _require(inputs: Sequence[TensorSpec], given: Attributes) -> None:
    data, indices = inputs
    require_dtype("take_along", data, tuple(DTYPES))
    require_dtype("take_along (indices)", indices, ("int32", "int64"))
    require_rank("take_along", data, 1)
    axis = require_axis("take_along", "axis", int_attribute(given, "axis"), data.rank)
    wanted = (*data.shape[:axis], *indices.shape[axis : axis + 1], *data.shape[axis + 1 :])
    if indices.shape != wanted:
        raise shapes_error("take_along", inputs, "all axes but that of the indices must agree")


def _take(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    data, indices = inputs
    return (take_along(builder, data, indices, int_attribute(given, "axis")),)


OPERATORS: Final = (
    composite(
        "take_along",
        (2, 2),
        (Attribute("axis", "int"),),
        _require,
        _take,
        (
            sample("rows", normal(3, 5), ints(3, 2, low=0, high=4), axis=1),
            sample("first", normal(4, 3), ints(6, 3, dtype="int64", low=0, high=3), axis=0),
            sample("middle", normal(2, 4, 3), ints(2, 1, 3, low=0, high=3), axis=1),
            sample("empty", normal(3, 4), ints(3, 0, low=0, high=3), axis=1),
            sample("size_1", normal(1), ints(1, low=0, high=0), axis=0),
            sample("strided", strided(normal(3, 4)), strided(ints(3, 2, low=0, high=3)), axis=1),
            sample("special", special(3, 4), ints(3, 4, low=0, high=3), axis=1),
            sample("bool", truth(5), ints(4, low=0, high=4), axis=0),
        ),
        "Elements of the first input along an axis, each by its own int32 or int64 index: "
        "result[.., i, ..] = data[.., indices[.., i, ..], ..]. An index that is negative or too "
        "large is an error.",
    ),
)
