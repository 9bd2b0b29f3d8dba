"""Arrays from nothing or like another one, under the names of the Python array API standard.

Owns: `arange` to `zeros_like`. Each returns a lazy array and raises `CaptureError` with the
researcher's line. What can be counted is made where it is used (`iota`), never sent.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpugoblin.capture import shaping
from gpugoblin.capture.applying import refused
from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.convert import MAX_CONSTANT_BYTES, constant_value
from gpugoblin.capture.dtypes import DtypeLike, Number, catalog_dtype, literal_dtype
from gpugoblin.capture.elementwise import cast, elementwise, literal, select
from gpugoblin.capture.expression import Value
from gpugoblin.capture.picking import iota
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import CaptureError

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | tuple[int, ...]


def asarray(
    obj: ArrayLike | Number, *, dtype: DtypeLike | None = None, copy: bool | None = None
) -> Array:
    """A lazy array over numbers in this process; see `array`. `copy` changes nothing, as arrays
    never change."""
    place = caller()
    if isinstance(obj, bool | int | float):
        return _filled("asarray", (), obj, dtype, place)
    value = as_value(obj, place)
    return Array(value if dtype is None else cast(value, _named(dtype, place), place))


def full(shape: Shape, fill: Number, *, dtype: DtypeLike | None = None) -> Array:
    """One number everywhere; without `dtype` a float is float32, an int int64."""
    return _filled("full", shape, fill, dtype, caller())


def zeros(shape: Shape, *, dtype: DtypeLike = "float32") -> Array:
    """Zeros."""
    return _filled("zeros", shape, 0, dtype, caller())


def ones(shape: Shape, *, dtype: DtypeLike = "float32") -> Array:
    """Ones."""
    return _filled("ones", shape, 1, dtype, caller())


def empty(shape: Shape, *, dtype: DtypeLike = "float32") -> Array:
    """Zeros: every program has one defined result."""
    return _filled("empty", shape, 0, dtype, caller())


def full_like(x: ArrayLike, fill: Number, *, dtype: DtypeLike | None = None) -> Array:
    """One number everywhere, in the shape and, unless one is given, the dtype of `x`."""
    return _like("full_like", x, fill, dtype, caller())


def zeros_like(x: ArrayLike, *, dtype: DtypeLike | None = None) -> Array:
    """Zeros in the shape and dtype of `x`."""
    return _like("zeros_like", x, 0, dtype, caller())


def ones_like(x: ArrayLike, *, dtype: DtypeLike | None = None) -> Array:
    """Ones in the shape and dtype of `x`."""
    return _like("ones_like", x, 1, dtype, caller())


def empty_like(x: ArrayLike, *, dtype: DtypeLike | None = None) -> Array:
    """Zeros in the shape and dtype of `x`."""
    return _like("empty_like", x, 0, dtype, caller())


def arange(
    start: int | float, stop: int | float | None = None, step: int | float = 1,
    *, dtype: DtypeLike | None = None,
) -> Array:  # fmt: skip
    """Numbers from `start` up to `stop` (not included). Integers are counted where they are used;
    a few floats become part of the graph."""
    place = caller()
    first, last = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(number, int) for number in (first, last, step))
    name = catalog_dtype(dtype or ("int64" if whole else "float32"), place, "arange")
    count = max(0, math.ceil((last - first) / step)) if step else 0
    if not whole:
        return Array(_numbers(np.arange(first, last, step).astype(name), place))
    counted = iota(count, place)
    if step != 1:
        counted = elementwise("mul", (counted, step), place)
    if first != 0:
        counted = elementwise("add", (counted, first), place)
    return Array(cast(counted, name, place))


def linspace(
    start: int | float,
    stop: int | float,
    num: int,
    *,
    dtype: DtypeLike | None = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers at equal distances from `start` to `stop`, which is left out without
    `endpoint`. They are rounded once, from float64."""
    place = caller()
    if num < 0:
        raise refused("linspace", [], f"{num} numbers", "Ask for 0 or more.", place)
    name = catalog_dtype(dtype or "float32", place, "linspace")
    return Array(_numbers(np.linspace(start, stop, num, endpoint=endpoint).astype(name), place))


def eye(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: DtypeLike = "float32"
) -> Array:
    """Ones where column - row is `k`, else zeros."""
    place = caller()
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    if min(shape) < 0:
        raise refused("eye", [], f"{shape} has an extent below 0", "Use 0 or more.", place)
    return Array(cast(_diagonal("eq", shape, k, place), _named(dtype, place), place))


def tril(x: ArrayLike, *, k: int = 0) -> Array:
    """The elements where column - row is at most `k`, else zeros."""
    return _triangle("tril", "le", x, k, caller())


def triu(x: ArrayLike, *, k: int = 0) -> Array:
    """The elements where column - row is at least `k`, else zeros."""
    return _triangle("triu", "ge", x, k, caller())


def meshgrid(*arrays: ArrayLike, indexing: str = "xy") -> tuple[Array, ...]:
    """The coordinates of a grid over lines: one array of all coordinates a line. With "xy" the
    first two axes change places, with "ij" not."""
    place = caller()
    values = [as_value(line, place) for line in arrays]
    if indexing not in ("xy", "ij") or any(value.spec.rank != 1 for value in values):
        raise refused(
            "meshgrid", values, f"lines and an indexing of xy or ij are wanted, not {indexing!r}",
            "Pass 1-d arrays.", place,
        )  # fmt: skip
    order = list(range(len(values)))
    if indexing == "xy" and len(values) > 1:
        order[:2] = [1, 0]
    shape = tuple(values[place].spec.count for place in order)
    grids = []
    for number, value in enumerate(values):
        axis = order.index(number)
        line = tuple(value.spec.count if one == axis else 1 for one in range(len(values)))
        grids.append(Array(shaping.broadcast_to(shaping.reshape(value, line, place), shape, place)))
    return tuple(grids)


def _numbers(array: np.ndarray[Any, Any], place: Place) -> Value:
    if array.nbytes > MAX_CONSTANT_BYTES:
        return as_value(array, place)
    return constant_value(array, place)


def _named(dtype: DtypeLike, place: Place) -> str:
    return catalog_dtype(dtype, place, "the target")


def _diagonal(function: str, shape: tuple[int, ...], k: int, place: Place) -> Value:
    """column - k against row, as a bool matrix of `shape`."""
    row = shaping.reshape(iota(shape[0], place), (shape[0], 1), place)
    column = iota(shape[1], place)
    shifted = elementwise("add", (row, k), place) if k else row
    return elementwise(function, (column, shifted), place)


def _triangle(name: str, function: str, x: ArrayLike, k: int, place: Place) -> Array:
    value = as_value(x, place)
    if value.spec.rank < 2:
        raise refused(name, [value], "there are no two axes", "Add an axis: x[:, None].", place)
    inside = _diagonal(function, value.spec.shape[-2:], k, place)
    zero = literal(DTYPES[value.spec.dtype].type(0).item(), value.spec.dtype, place)
    return Array(select(inside, value, zero, place))


def _like(name: str, x: ArrayLike, fill: Number, dtype: DtypeLike | None, place: Place) -> Array:
    spec = as_value(x, place).spec
    return _filled(name, spec.shape, fill, spec.dtype if dtype is None else dtype, place)


def _filled(
    operator: str, shape: Shape, fill: Number, dtype: DtypeLike | None, place: Place
) -> Array:
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(extent < 0 for extent in extents):
        raise CaptureError(
            "shapes_differ",
            line=place,
            operator=operator,
            operands=str(extents),
            cause="an extent is below 0",
            fix="Use extents of 0 or more.",
        )
    plain = {bool: "bool", int: "int64", float: "float32"}[type(fill)]
    name = catalog_dtype(dtype or plain, place, operator)
    if name == "bool":
        fill = bool(fill)
    one: Value = literal(fill, literal_dtype(operator, fill, name, place), place)
    return Array(shaping.broadcast_to(one, extents, place))
