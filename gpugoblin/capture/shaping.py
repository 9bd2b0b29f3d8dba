"""Moving elements without computing: reshape, permute, broadcast, concat, stack.

Owns: NumPy's conveniences (-1, negative axes, 1-d joins) on top of the catalog's plain operators.
Must not: compute a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gpugoblin.capture.applying import apply, describe, refused
from gpugoblin.capture.caller import Place
from gpugoblin.capture.dtypes import promote
from gpugoblin.capture.elementwise import cast
from gpugoblin.capture.expression import Value
from gpugoblin.errors import CaptureError

__all__ = [
    "broadcast_to",
    "concat",
    "expand_dims",
    "flat_ints",
    "normal_axis",
    "permute",
    "repeat",
    "reshape",
    "squeeze",
    "stack",
    "tile",
    "transpose_last",
]

MAX_JOINED: Final = 64
"""Inputs of one concat; more are joined in rounds."""


def flat_ints(given: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    """`(2, 3)` from `f(2, 3)` as well as from `f((2, 3))`."""
    if len(given) == 1 and isinstance(given[0], Sequence):
        return tuple(int(item) for item in given[0])
    return tuple(int(item) for item in given if not isinstance(item, Sequence))


def normal_axis(operator: str, value: Value, axis: int, place: Place) -> int:
    """An axis counted from 0.

    Raises:
        CaptureError: `argument_refused`.
    """
    if not -value.spec.rank <= axis < value.spec.rank:
        raise refused(
            operator,
            [value],
            f"there is no axis {axis}",
            f"Axes run from {-value.spec.rank} to {value.spec.rank - 1}."
            if value.spec.rank
            else "A 0-d array has no axes.",
            place,
        )
    return axis % value.spec.rank


def reshape(value: Value, shape: tuple[int, ...], place: Place) -> Value:
    """The same elements in C order; one extent may be -1."""
    if shape.count(-1) > 1:
        raise refused(
            "reshape", [value], f"{shape} leaves two extents open", "Write -1 once.", place
        )
    if -1 in shape:
        known = -math.prod(shape)
        if known == 0 or value.spec.count % known:
            raise refused(
                "reshape",
                [value],
                f"{value.spec.count} elements do not fill {shape}",
                "Choose extents whose product divides the count.",
                place,
            )
        shape = tuple(value.spec.count // known if extent == -1 else extent for extent in shape)
    if shape == value.spec.shape:
        return value
    if any(extent < 0 for extent in shape) or math.prod(shape) != value.spec.count:
        raise refused(
            "reshape",
            [value],
            f"{value.spec.count} elements do not fill {shape}",
            "Keep the number of elements.",
            place,
        )
    return Value(apply("reshape", [value], place, shape=shape), 0)


def permute(value: Value, axes: tuple[int, ...] | None, place: Place) -> Value:
    """Axis i of the result is axis `axes[i]`; None turns all around."""
    rank = value.spec.rank
    if axes is None:
        axes = tuple(range(rank))[::-1]
    normal = tuple(normal_axis("permute", value, axis, place) for axis in axes)
    if sorted(normal) != list(range(rank)):
        raise refused(
            "permute", [value], f"{axes} does not name each axis once",
            f"Name all {rank} axes once.", place,
        )  # fmt: skip
    if normal == tuple(range(rank)):
        return value
    return Value(apply("permute", [value], place, axes=normal), 0)


def transpose_last(value: Value, place: Place) -> Value:
    """The last two axes exchanged."""
    rank = value.spec.rank
    if rank < 2:
        raise refused("mT", [value], "there are no two axes", "Add an axis: x[:, None].", place)
    return permute(value, (*range(rank - 2), rank - 1, rank - 2), place)


def expand_dims(value: Value, axis: int, place: Place) -> Value:
    """A new axis of extent 1 at `axis` of the result."""
    rank = value.spec.rank + 1
    if not -rank <= axis < rank:
        raise refused(
            "expand_dims", [value], f"there is no place {axis}",
            f"Places run from {-rank} to {rank - 1}.", place,
        )  # fmt: skip
    place_in_shape = axis % rank
    shape = value.spec.shape
    return reshape(value, (*shape[:place_in_shape], 1, *shape[place_in_shape:]), place)


def squeeze(value: Value, axis: int | tuple[int, ...], place: Place) -> Value:
    """Without the named axes."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    dropped = {normal_axis("squeeze", value, item, place) for item in axes}
    if any(value.spec.shape[item] != 1 for item in dropped):
        raise refused(
            "squeeze", [value], f"not all of the axes {sorted(dropped)} have the extent 1",
            "Name axes of extent 1, or take an element with x[0].", place,
        )  # fmt: skip
    kept = tuple(n for item, n in enumerate(value.spec.shape) if item not in dropped)
    return reshape(value, kept, place)


def broadcast_to(value: Value, shape: tuple[int, ...], place: Place) -> Value:
    """Repeats axes of extent 1 and new leading axes."""
    if shape == value.spec.shape:
        return value
    return Value(apply("broadcast", [value], place, shape=shape), 0)


def repeat(value: Value, repeats: int, axis: int | None, place: Place) -> Value:
    """Each element `repeats` times in a row along `axis`; None goes through all in C order."""
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 0:
        raise refused(
            "repeat", [value], "the count is no whole number of 0 or more",
            "Use one int; for counts that differ, gg.take with positions.", place,
        )  # fmt: skip
    if axis is None:
        value, axis = reshape(value, (-1,), place), 0
    axis = normal_axis("repeat", value, axis, place)
    shape = value.spec.shape
    wide = (*shape[: axis + 1], repeats, *shape[axis + 1 :])
    found = broadcast_to(expand_dims(value, axis + 1, place), wide, place)
    return reshape(found, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]), place)


def tile(value: Value, repetitions: tuple[int, ...], place: Place) -> Value:
    """The array so often along each axis; the shorter of shape and repetitions gets leading 1s."""
    if any(count < 0 for count in repetitions):
        raise refused("tile", [value], f"{repetitions}", "Repeat 0 times or more.", place)
    rank = max(len(repetitions), value.spec.rank)
    counts = (1,) * (rank - len(repetitions)) + repetitions
    shape = (1,) * (rank - value.spec.rank) + value.spec.shape
    repeated = [axis for axis in range(rank) if counts[axis] != 1]
    narrow: list[int] = []
    wide: list[int] = []
    for axis in range(rank):
        narrow += [1, shape[axis]] if axis in repeated else [shape[axis]]
        wide += [counts[axis], shape[axis]] if axis in repeated else [shape[axis]]
    found = broadcast_to(reshape(value, tuple(narrow), place), tuple(wide), place)
    whole = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return reshape(found, whole, place)


def concat(values: Sequence[Value], axis: int | None, place: Place) -> Value:
    """Joins along one axis; None joins the elements of all, in C order."""
    if not values:
        raise refused("concat", [], "there is nothing to join", "Pass at least one array.", place)
    common = promote("concat", tuple(v.spec.dtype for v in values), describe(values), place)
    parts = [cast(value, common, place) for value in values]
    if axis is None:
        parts = [reshape(part, (-1,), place) for part in parts]
        axis = 0
    axis = normal_axis("concat", parts[0], axis, place)
    _require_joinable(parts, axis, place)
    while len(parts) > 1:
        parts = [
            Value(apply("concat", parts[first : first + MAX_JOINED], place, axis=axis), 0)
            for first in range(0, len(parts), MAX_JOINED)
        ]
    return parts[0]


def stack(values: Sequence[Value], axis: int, place: Place) -> Value:
    """Joins arrays of one shape along a new axis."""
    shapes = {value.spec.shape for value in values}
    if len(shapes) > 1:
        raise CaptureError(
            "shapes_differ",
            line=place,
            operator="stack",
            operands=describe(values),
            cause="the shapes are not all the same",
            fix="Use gg.concat for arrays that differ along one axis.",
        )
    parts = [expand_dims(value, axis, place) for value in values]
    return concat(parts, axis, place)


def _require_joinable(parts: Sequence[Value], axis: int, place: Place) -> None:
    first = parts[0].spec.shape
    for part in parts[1:]:
        shape = part.spec.shape
        if len(shape) != len(first) or any(
            shape[other] != first[other] for other in range(len(first)) if other != axis
        ):
            raise CaptureError(
                "shapes_differ",
                line=place,
                operator="concat",
                operands=describe([parts[0], part]),
                cause=f"all axes but axis {axis} must agree",
                fix="Slice or reshape the parts first.",
            )
