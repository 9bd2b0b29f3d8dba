"""Functions that order, shift and accumulate, under the names of the Python array API standard.

Owns: the standard's arguments on top of the catalog's `flip`, `pad`, `sort`, `searchsorted` and
`scan_reduce`; `pad` is NumPy's. Each takes lazy arrays or ndarrays, returns lazy arrays, and raises
`CaptureError` with the researcher's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gpugoblin.capture import shaping
from gpugoblin.capture.applying import apply, describe, refused
from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.convert import constant_value
from gpugoblin.capture.dtypes import DtypeLike, Number, catalog_dtype, literal_dtype, promote
from gpugoblin.capture.elementwise import cast, literal
from gpugoblin.capture.expression import Value
from gpugoblin.catalog.spec import DTYPES

__all__ = [
    "argsort",
    "cumulative_prod",
    "cumulative_sum",
    "flip",
    "moveaxis",
    "pad",
    "roll",
    "searchsorted",
    "sort",
]

Widths = int | tuple[int, int] | Sequence[tuple[int, int]]


def flip(x: ArrayLike, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """The elements in reversed order along `axis`; None reverses every axis."""
    place = caller()
    value = as_value(x, place)
    axes = _axes("flip", value, axis, place)
    return Array(Value(apply("flip", [value], place, axes=tuple(sorted(set(axes)))), 0))


def roll(
    x: ArrayLike,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Array:
    """The elements moved on by `shift` along `axis`, the last ones to the front; None moves through
    all elements in C order."""
    place = caller()
    value = as_value(x, place)
    shifts = (shift,) if isinstance(shift, int) else tuple(shift)
    if axis is None:
        flat = shaping.reshape(value, (-1,), place)
        for step in shifts:
            flat = _rolled(flat, 0, step, place)
        return Array(shaping.reshape(flat, value.spec.shape, place))
    axes = _axes("roll", value, axis, place)
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(shifts) != len(axes):
        raise refused(
            "roll", [value], f"{len(shifts)} shifts do not fit {len(axes)} axes",
            "Give one shift, or one an axis.", place,
        )  # fmt: skip
    for one, step in zip(axes, shifts, strict=True):
        value = _rolled(value, one, step, place)
    return Array(value)


def moveaxis(
    x: ArrayLike, source: int | tuple[int, ...], destination: int | tuple[int, ...]
) -> Array:
    """The axes of `source` become those of `destination`; the order of the others stays."""
    place = caller()
    value = as_value(x, place)
    sources = _axes("moveaxis", value, source, place)
    targets = _axes("moveaxis", value, destination, place)
    if len(set(sources)) != len(targets) or len(set(targets)) != len(sources):
        raise refused(
            "moveaxis", [value], f"{source} and {destination} do not pair up",
            "Name as many axes on both sides, each once.", place,
        )  # fmt: skip
    order = [axis for axis in range(value.spec.rank) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return Array(shaping.permute(value, tuple(order), place))


def pad(x: ArrayLike, widths: Widths, *, value: Number = 0) -> Array:
    """`value` around the elements: `widths` is one number, (before, after), or one pair an axis."""
    place = caller()
    data = as_value(x, place)
    pairs = _pairs(data, widths, place)
    dtype = literal_dtype("pad", value, data.spec.dtype, place)
    filler = literal(value, dtype, place)
    low, high = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    none = (0,) * data.spec.rank
    node = apply("pad", [data, filler], place, low=low, high=high, between=none)
    return Array(Value(node, 0))


def sort(x: ArrayLike, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements along `axis` in order; NaN counts as the largest. Always stable."""
    return Array(_sorted("sort", x, axis, descending, caller(), 0))


def argsort(
    x: ArrayLike, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Array:
    """The int64 positions that sort the elements along `axis`; equals keep their order."""
    return Array(_sorted("argsort", x, axis, descending, caller(), 1))


def searchsorted(x1: ArrayLike, x2: ArrayLike, *, side: Literal["left", "right"] = "left") -> Array:
    """For each element of `x2` its int64 place among the elements of the line `x1`: before equal
    ones (`left`) or after them. `x1` need not be sorted."""
    place = caller()
    line, values = as_value(x1, place), as_value(x2, place)
    if line.spec.rank != 1:
        raise refused(
            "searchsorted", [line, values], "the first is no line", "Pass a 1-d array first.", place
        )
    if side not in ("left", "right"):
        raise refused(
            "searchsorted", [line, values], f"there is no side {side!r}",
            'Use "left" or "right".', place,
        )  # fmt: skip
    both = (line.spec.dtype, values.spec.dtype)
    common = promote("searchsorted", both, describe([line, values]), place)
    operands = [cast(one, common, place) for one in (line, values)]
    return Array(Value(apply("searchsorted", operands, place, right=side == "right"), 0))


def cumulative_sum(
    x: ArrayLike,
    *,
    axis: int | None = None,
    dtype: DtypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Running sums along `axis`, which may be left out for a line; int32 and bool as int64.
    `include_initial` begins with the empty sum."""
    return Array(_scanned("sum", x, axis, dtype, include_initial, caller()))


def cumulative_prod(
    x: ArrayLike,
    *,
    axis: int | None = None,
    dtype: DtypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Running products along `axis`, as `cumulative_sum`."""
    return Array(_scanned("prod", x, axis, dtype, include_initial, caller()))


def _axes(
    operator: str, value: Value, axis: int | tuple[int, ...] | None, place: Place
) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(value.spec.rank))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(shaping.normal_axis(operator, value, one, place) for one in given)


def _rolled(value: Value, axis: int, shift: int, place: Place) -> Value:
    extent = value.spec.shape[axis]
    shift = shift % extent if extent else 0
    if not shift:
        return value
    parts = [(extent - shift, extent), (0, extent - shift)]
    return shaping.concat([_part(value, axis, *part, place) for part in parts], axis, place)


def _part(value: Value, axis: int, start: int, stop: int, place: Place) -> Value:
    shape = value.spec.shape
    first = tuple(start if one == axis else 0 for one in range(len(shape)))
    last = tuple(stop if one == axis else extent for one, extent in enumerate(shape))
    node = apply("slice", [value], place, start=first, stop=last, step=(1,) * len(shape))
    return Value(node, 0)


def _pairs(value: Value, widths: Widths, place: Place) -> list[tuple[int, int]]:
    rank = value.spec.rank
    if isinstance(widths, int):
        return [(widths, widths)] * rank
    given = list(widths)
    if len(given) == 2 and all(isinstance(one, int) for one in given):
        return [(given[0], given[1])] * rank  # type: ignore[list-item]
    pairs = [tuple(pair) for pair in given if isinstance(pair, Sequence) and len(pair) == 2]
    if len(pairs) != len(given) or len(pairs) != rank:
        raise refused(
            "pad", [value], f"{widths} is no pair for each of {rank} axes",
            "Write one number, (before, after), or a list of such pairs.", place,
        )  # fmt: skip
    return [(int(before), int(after)) for before, after in pairs]


def _sorted(
    operator: str, x: ArrayLike, axis: int, descending: bool, place: Place, output: int
) -> Value:
    value = as_value(x, place)
    axis = shaping.normal_axis(operator, value, axis, place)
    return Value(apply("sort", [value], place, axis=axis, descending=bool(descending)), output)


def _scanned(
    function: str,
    x: ArrayLike,
    axis: int | None,
    dtype: DtypeLike | None,
    include_initial: bool,
    place: Place,
) -> Value:
    value, name = as_value(x, place), f"cumulative_{function}"
    if axis is None and value.spec.rank != 1:
        raise refused(
            name, [value], "no axis is named", "Name one: axis=0; only a line needs none.", place
        )
    axis = shaping.normal_axis(name, value, 0 if axis is None else axis, place)
    wanted = "int64" if value.spec.dtype in ("int32", "bool") else value.spec.dtype
    if dtype is not None:
        wanted = catalog_dtype(dtype, place, "the target")
    value = cast(value, wanted, place)
    found = Value(apply("scan_reduce", [value], place, axis=axis, function=function), 0)
    if not include_initial:
        return found
    shape = value.spec.shape
    first = DTYPES[wanted].type(0 if function == "sum" else 1)
    edge = (*shape[:axis], 1, *shape[axis + 1 :])
    start = shaping.broadcast_to(constant_value(first.reshape(()), place), edge, place)
    return shaping.concat([start, found], axis, place)
