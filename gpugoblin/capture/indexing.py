"""`x[...]`: ints, slices, None, Ellipsis, and arrays of positions that stand side by side.

Owns: the reading of an index, and its steps: one slice, one flip for steps below 0, one reshape,
and one pick for arrays of positions. Must not: choose by a bool, as the shape of the result would
depend on numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from gpugoblin.capture.applying import apply
from gpugoblin.capture.caller import Place
from gpugoblin.capture.convert import memory_value
from gpugoblin.capture.expression import Value
from gpugoblin.capture.picking import pick
from gpugoblin.capture.shaping import reshape
from gpugoblin.errors import CaptureError

__all__ = ["Index", "take_index"]

Part = int | slice | EllipsisType | None | Value
Index = Part | tuple[Part, ...]


def take_index(value: Value, index: Index, place: Place) -> Value:
    """What NumPy gives for `x[index]`.

    Raises:
        CaptureError: `index_refused`.
    """
    given = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, Value) for part in given):
        return _advanced(value, given, place)
    parts = _full(value, given, place)
    return _basic(value, parts, place)


def _basic(value: Value, parts: Sequence[int | slice | None], place: Place) -> Value:
    start: list[int] = []
    stop: list[int] = []
    step: list[int] = []
    shape: list[int] = []
    turned: list[int] = []
    for part in parts:
        if part is None:
            shape.append(1)
            continue
        extent = value.spec.shape[len(start)]
        if isinstance(part, slice):
            first, last, stride = _slice(value, part, extent, place)
            if stride < 0:
                first, last, stride = _mirrored(first, last, stride)
                turned.append(len(start))
            shape.append(-(-(last - first) // stride))
        else:
            first, last, stride = _integer(value, part, extent, len(start), place)
        start.append(first)
        stop.append(last)
        step.append(stride)
    whole = all(
        (first, last, stride) == (0, extent, 1)
        for first, last, stride, extent in zip(start, stop, step, value.spec.shape, strict=True)
    )
    if not whole:
        node = apply(
            "slice", [value], place, start=tuple(start), stop=tuple(stop), step=tuple(step)
        )
        value = Value(node, 0)
    if turned:
        value = Value(apply("flip", [value], place, axes=tuple(turned)), 0)
    return reshape(value, tuple(shape), place)


def _advanced(value: Value, given: tuple[Part, ...], place: Place) -> Value:
    """Arrays of positions side by side: the rest of the index first, then one pick. Ints beside
    arrays count as arrays, as in NumPy."""
    dummies = tuple(slice(None) if isinstance(part, Value) else part for part in given)
    parts: list[int | slice | Value | None] = list(_full(value, dummies, place))
    front = next((i for i, part in enumerate(given) if part is Ellipsis), len(given))
    for number, part in enumerate(given):
        if isinstance(part, Value):
            if part.spec.dtype == "bool":
                raise _refused(
                    value, given, "how many elements a bool array picks is only known later",
                    "Keep the shape: gg.where(condition, x, 0).", place,
                )  # fmt: skip
            parts[number if number < front else number - len(given) + len(parts)] = part
    places = [i for i, part in enumerate(parts) if isinstance(part, Value | int)]
    if places != list(range(places[0], places[-1] + 1)):
        raise _refused(
            value, given, "the positions do not stand side by side",
            "Bring the axes together with gg.moveaxis, or index in two steps.", place,
        )  # fmt: skip
    rest = [slice(None) if i in places else part for i, part in enumerate(parts)]
    first = places[0] - sum(part is None for part in parts[: places[0]])
    indices = [
        _position(value, part, value.spec.shape[first + n], first + n, place)
        for n, part in enumerate(parts[places[0] : places[-1] + 1])
    ]
    kept = [part for part in rest if isinstance(part, slice | None)]
    sliced = _basic(value, kept, place)
    return pick(sliced, places[0], indices, place)


def _position(value: Value, part: Any, extent: int, axis: int, place: Place) -> Value:
    if isinstance(part, Value):
        return part
    return memory_value(np.array(_integer(value, part, extent, axis, place)[0]), place)


def _mirrored(first: int, last: int, stride: int) -> tuple[int, int, int]:
    """The slice with a step above 0 that has the same elements in the opposite order."""
    count = max(0, -(-(first - last) // -stride))
    return (first + (count - 1) * stride, first + 1, -stride) if count else (0, 0, 1)


def _full(value: Value, parts: tuple[Any, ...], place: Place) -> list[int | slice | None]:
    """The index with its ellipsis written out: one part an axis, and the Nones."""
    for part in parts:
        if not (part is None or part is Ellipsis or isinstance(part, slice) or _is_int(part)):
            raise _refused(
                value,
                parts,
                f"{type(part).__name__} is not an int, a slice, None, ... or an array of positions",
                "Pick positions with gg.take(x, indices, axis=0), choose elements with gg.where.",
                place,
            )
    if sum(part is Ellipsis for part in parts) > 1:
        raise _refused(value, parts, "there are two ellipses", "Write ... once.", place)
    given = sum(part is not None and part is not Ellipsis for part in parts)
    if given > value.spec.rank:
        raise _refused(
            value, parts, f"{given} axes are indexed", f"There are {value.spec.rank} axes.", place
        )
    rest: list[int | slice | None] = [slice(None)] * (value.spec.rank - given)
    if not any(part is Ellipsis for part in parts):
        return [*(_plain(part) for part in parts), *rest]
    where = next(i for i, part in enumerate(parts) if part is Ellipsis)
    return [
        *(_plain(part) for part in parts[:where]),
        *rest,
        *(_plain(part) for part in parts[where + 1 :]),
    ]


def _slice(value: Value, part: slice, extent: int, place: Place) -> tuple[int, int, int]:
    try:
        first, last, stride = part.indices(extent)
    except (TypeError, ValueError) as cause:
        raise _refused(value, part, str(cause), "Use integers in slices.", place) from cause
    if stride < 0:
        return first, last, stride
    return first, max(first, last), stride


def _integer(value: Value, part: int, extent: int, axis: int, place: Place) -> tuple[int, int, int]:
    if not -extent <= part < extent:
        raise _refused(
            value,
            part,
            f"axis {axis} has the extent {extent}",
            f"Use {-extent} to {extent - 1}." if extent else "The axis is empty.",
            place,
        )
    first = part % extent
    return first, first + 1, 1


def _is_int(part: object) -> bool:
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


def _plain(part: Any) -> int | slice | None:
    return part if part is None or isinstance(part, slice) else int(part)


def _refused(value: Value, index: object, cause: str, fix: str, place: Place) -> CaptureError:
    return CaptureError(
        "index_refused",
        line=place,
        operands=str(value.spec),
        index=_shown(index),
        cause=cause,
        fix=fix,
    )


def _shown(index: object) -> str:
    if isinstance(index, tuple):
        return "[" + ", ".join(_shown(part) for part in index) + "]"
    if isinstance(index, slice):
        ends = ["" if end is None else str(end) for end in (index.start, index.stop)]
        return ":".join(ends if index.step is None else [*ends, str(index.step)])
    if index is Ellipsis:
        return "..."
    if index is None or _is_int(index):
        return str(index)
    return type(index).__name__
