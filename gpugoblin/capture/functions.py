"""The functions of arrays, under the names of the Python array API standard.

Owns: the public functions beside the methods of `Array`. Every one takes lazy arrays, ndarrays or,
where elementwise, Python numbers beside at least one array; returns lazy arrays; and raises
`CaptureError` with the researcher's line. Shapes broadcast as in NumPy; dtypes combine as
`capture/dtypes.py` says.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpugoblin.capture import picking, products, reducing, selecting, shaping
from gpugoblin.capture.array import Array, ArrayLike, as_value, operand
from gpugoblin.capture.caller import caller
from gpugoblin.capture.dtypes import DtypeLike, Number, catalog_dtype
from gpugoblin.capture.elementwise import broadcast_shape, cast, elementwise, select
from gpugoblin.capture.indexing import take_index

__all__ = [
    "array",
    "astype",
    "broadcast_arrays",
    "broadcast_to",
    "choose",
    "clip",
    "concat",
    "expand_dims",
    "matmul",
    "matrix_transpose",
    "permute_dims",
    "repeat",
    "reshape",
    "squeeze",
    "stack",
    "take",
    "take_along_axis",
    "tensordot",
    "tile",
    "topk",
    "unstack",
    "vecdot",
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


def vecdot(x1: ArrayLike, x2: ArrayLike, *, axis: int = -1) -> Array:
    """The sums of products along `axis`."""
    place = caller()
    product = elementwise("mul", (as_value(x1, place), as_value(x2, place)), place)
    return Array(reducing.reduce("sum", product, axis, False, place))


def tensordot(
    x1: ArrayLike, x2: ArrayLike, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Array:
    """Products summed over `axes`: as many of the last of `x1` and first of `x2`, or two lists."""
    place = caller()
    left, right = as_value(x1, place), as_value(x2, place)
    if isinstance(axes, int):
        axes = (range(left.spec.rank - axes, left.spec.rank), range(axes))
    first = [shaping.normal_axis("tensordot", left, axis, place) for axis in axes[0]]
    second = [shaping.normal_axis("tensordot", right, axis, place) for axis in axes[1]]
    return Array(products.contract(left, right, (first, second), ((), ()), place))


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


def broadcast_arrays(*arrays: ArrayLike) -> tuple[Array, ...]:
    """All in the one shape that they broadcast to."""
    place = caller()
    values = [as_value(x, place) for x in arrays]
    shape = broadcast_shape("broadcast_arrays", values, place) if values else ()
    return tuple(Array(shaping.broadcast_to(value, shape, place)) for value in values)


def repeat(x: ArrayLike, repeats: int, *, axis: int | None = None) -> Array:
    """Each element (without `axis`: of all in C order) `repeats` times in a row."""
    place = caller()
    return Array(shaping.repeat(as_value(x, place), repeats, axis, place))


def tile(x: ArrayLike, repetitions: tuple[int, ...]) -> Array:
    """The array side by side with itself, so often along each axis, counted from the last."""
    place = caller()
    return Array(shaping.tile(as_value(x, place), tuple(repetitions), place))


def unstack(x: ArrayLike, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along `axis`, without that axis."""
    place = caller()
    value = as_value(x, place)
    axis = shaping.normal_axis("unstack", value, axis, place)
    before = (slice(None),) * axis
    return tuple(
        Array(take_index(value, (*before, number), place))
        for number in range(value.spec.shape[axis])
    )


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


def take_along_axis(x: ArrayLike, indices: ArrayLike, *, axis: int = -1) -> Array:
    """For each line along `axis` the elements at the positions of that line of `indices`."""
    place = caller()
    return Array(picking.take_along_axis(as_value(x, place), as_value(indices, place), axis, place))


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
