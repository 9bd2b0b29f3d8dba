"""The functions of arrays, under the names of the Python array API standard.

Owns: the public functions beside the methods of `Array`. Every one takes lazy arrays, ndarrays or,
where elementwise, Python numbers beside at least one array; returns lazy arrays; and raises
`CaptureError` with the researcher's line. Shapes broadcast as in NumPy; dtypes combine as
`capture/dtypes.py` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpugoblin.capture import products, reducing, selecting, shaping
from gpugoblin.capture.array import Array, ArrayLike, as_value, operand
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.convert import MAX_CONSTANT_BYTES, constant_value
from gpugoblin.capture.dtypes import DtypeLike, Number, catalog_dtype, literal_dtype
from gpugoblin.capture.elementwise import cast, elementwise, literal, select
from gpugoblin.capture.expression import Value
from gpugoblin.errors import CaptureError

__all__ = [
    "arange",
    "array",
    "astype",
    "broadcast_to",
    "choose",
    "clip",
    "concat",
    "expand_dims",
    "full",
    "matmul",
    "matrix_transpose",
    "ones",
    "permute_dims",
    "reshape",
    "softmax",
    "squeeze",
    "stack",
    "take",
    "topk",
    "vecdot",
    "zeros",
]


def array(numbers: ArrayLike) -> Array:
    """A lazy array over numbers in this process: an ndarray, or a nested list.

    The ndarray is not copied and must not change until the job is submitted. Python floats are
    float32, Python ints int64.

    Raises:
        CaptureError: `dtype_refused` (float64 is never rounded in silence), `not_an_array`.
    """
    return Array(as_value(numbers, caller()))


def astype(x: ArrayLike, dtype: DtypeLike) -> Array:
    """Another dtype; see `Array.astype`."""
    place = caller()
    return Array(cast(as_value(x, place), catalog_dtype(dtype, place, "the target"), place))


def matmul(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The matrix product; see `Array.__matmul__`."""
    place = caller()
    return Array(products.matmul(as_value(x1, place), as_value(x2, place), place))


def vecdot(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The sums of products along the last axis."""
    place = caller()
    product = elementwise("mul", (as_value(x1, place), as_value(x2, place)), place)
    return Array(reducing.reduce("sum", product, -1, False, place))


def reshape(x: ArrayLike, shape: tuple[int, ...]) -> Array:
    """The same elements in C order; one extent may be -1."""
    place = caller()
    return Array(shaping.reshape(as_value(x, place), tuple(shape), place))


def permute_dims(x: ArrayLike, axes: tuple[int, ...]) -> Array:
    """The axes in another order."""
    place = caller()
    return Array(shaping.permute(as_value(x, place), tuple(axes), place))


def matrix_transpose(x: ArrayLike) -> Array:
    """The last two axes exchanged."""
    place = caller()
    return Array(shaping.transpose_last(as_value(x, place), place))


def expand_dims(x: ArrayLike, axis: int = 0) -> Array:
    """A new axis of extent 1."""
    place = caller()
    return Array(shaping.expand_dims(as_value(x, place), axis, place))


def squeeze(x: ArrayLike, axis: int | tuple[int, ...]) -> Array:
    """Without the named axes, which have the extent 1."""
    place = caller()
    return Array(shaping.squeeze(as_value(x, place), axis, place))


def broadcast_to(x: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Repeats axes of extent 1 and new leading axes."""
    place = caller()
    return Array(shaping.broadcast_to(as_value(x, place), tuple(shape), place))


def concat(arrays: Sequence[ArrayLike], *, axis: int | None = 0) -> Array:
    """Joins along one axis; None joins the elements of all."""
    place = caller()
    return Array(shaping.concat([as_value(x, place) for x in arrays], axis, place))


def stack(arrays: Sequence[ArrayLike], *, axis: int = 0) -> Array:
    """Joins arrays of one shape along a new axis."""
    place = caller()
    return Array(shaping.stack([as_value(x, place) for x in arrays], axis, place))


def take(x: ArrayLike, indices: ArrayLike, *, axis: int = 0) -> Array:
    """The slices at `indices` along `axis`."""
    place = caller()
    return Array(selecting.take(as_value(x, place), as_value(indices, place), axis, place))


def topk(x: ArrayLike, k: int, *, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """The `k` largest (or smallest) elements along `axis` in order, and their int64 positions."""
    place = caller()
    values, positions = selecting.topk(as_value(x, place), k, axis, largest, place)
    return Array(values), Array(positions)


def choose(condition: ArrayLike, x1: ArrayLike | Number, x2: ArrayLike | Number) -> Array:
    """`x1` where `condition`, else `x2`. Public as `gg.where`."""
    place = caller()
    return Array(select(as_value(condition, place), operand(x1, place), operand(x2, place), place))


def clip(x: ArrayLike, min: Number | None = None, max: Number | None = None) -> Array:
    """No smaller than `min` and no larger than `max`; None leaves a side open."""
    place = caller()
    value = as_value(x, place)
    if min is not None:
        value = elementwise("max", (value, min), place)
    if max is not None:
        value = elementwise("min", (value, max), place)
    return Array(value)


def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """exp(x) over its sum along `axis`, from the largest element down so that nothing overflows."""
    place = caller()
    value = as_value(x, place)
    top = reducing.reduce("max", value, axis, True, place)
    powers = elementwise("exp", (elementwise("sub", (value, top), place),), place)
    total = reducing.reduce("sum", powers, axis, True, place)
    return Array(elementwise("div", (powers, total), place))


def full(shape: int | tuple[int, ...], fill: Number, *, dtype: DtypeLike | None = None) -> Array:
    """One number everywhere; without `dtype` a float is float32, an int int64."""
    return _filled("full", shape, fill, dtype, caller())


def zeros(shape: int | tuple[int, ...], *, dtype: DtypeLike = "float32") -> Array:
    """Zeros."""
    return _filled("zeros", shape, 0, dtype, caller())


def ones(shape: int | tuple[int, ...], *, dtype: DtypeLike = "float32") -> Array:
    """Ones."""
    return _filled("ones", shape, 1, dtype, caller())


def arange(
    start: int | float, stop: int | float | None = None, step: int | float = 1,
    *, dtype: DtypeLike | None = None,
) -> Array:  # fmt: skip
    """Numbers from `start` up to `stop` (not included); small ones become part of the graph."""
    place = caller()
    first, last = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(number, int) for number in (first, last, step))
    name = catalog_dtype(dtype or ("int64" if whole else "float32"), place, "arange")
    count = max(0, math.ceil((last - first) / step)) if step else 0
    if count * 8 > MAX_CONSTANT_BYTES:
        return Array(as_value(np.arange(first, last, step).astype(name), place))
    return Array(constant_value(np.arange(first, last, step).astype(name), place))


def _filled(
    operator: str,
    shape: int | tuple[int, ...],
    fill: Number,
    dtype: DtypeLike | None,
    place: Place,
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
