"""The operators `window` and `fold`: sliding windows laid out, and added back. Owns: their
declarations. Each is the derivative of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.building import filled
from gpugoblin.catalog.moving import invalid, moving
from gpugoblin.catalog.rounding import finite_part, format_of, gamma, guard_overflow
from gpugoblin.catalog.rules import (
    ints_attribute,
    moved,
    require_dtype,
    require_rank,
    shapes_error,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import (
    DTYPES,
    FLOATS,
    Array,
    Attribute,
    Attributes,
    Builder,
    Cost,
    Operator,
    Split,
    TensorSpec,
    Tolerance,
)
from gpugoblin.catalog.windows import Window, padded, read_window, shifts

__all__ = [
    "FOLD",
    "OPERATORS",
    "WINDOW",
    "at_place",
    "fold_into",
    "fold_windows",
    "sliding_windows",
]

_MOST: Final = 2**40


def at_place(kept: int, place: tuple[int, ...]) -> tuple[slice | int, ...]:
    """The index of one element of the windows, behind `kept` axes."""
    return (*(slice(None),) * kept, *place)


def sliding_windows(attributes: Attributes) -> tuple[Window, ...]:
    """The windows of `window`, over as many trailing axes."""
    return read_window("window", attributes, ints_attribute(attributes, "window"))


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    spec, windows = inputs[0], sliding_windows(attributes)
    require_dtype("window", spec, tuple(DTYPES))
    require_rank("window", spec, len(windows))
    kept = spec.rank - len(windows)
    places = (w.output(n) for w, n in zip(windows, spec.shape[kept:], strict=True))
    extents = (window.extent for window in windows)
    return (TensorSpec(spec.dtype, (*spec.shape[:kept], *extents, *places)),)


def _move(inputs: Sequence[Array], attributes: Attributes) -> Array:
    array, windows = inputs[0], sliding_windows(attributes)
    kept = array.ndim - len(windows)
    spots = [w.output(n) for w, n in zip(windows, array.shape[kept:], strict=True)]
    result = np.zeros(
        (*array.shape[:kept], *(window.extent for window in windows), *spots), array.dtype
    )
    if result.size:
        for place, part in shifts(padded(array, windows, 0), windows, spots):
            result[at_place(kept, place)] = part
    return result


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    windows = sliding_windows(attributes)
    kept, count = inputs[0].rank - len(windows), len(windows)
    return (
        *(Split(f"i{axis}", "parallel", (axis,), axis) for axis in range(kept)),
        *(Split(f"k{axis}", "whole", (None,), kept + axis) for axis in range(count)),
        *(
            Split(f"s{axis}", "halo", (kept + axis,), kept + count + axis, halo=window.halo)
            for axis, window in enumerate(windows)
        ),
    )


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    (seed,), (value,) = seeds, inputs
    if seed is None:
        return (None,)
    spec = builder.spec(value)
    if builder.spec(seed).count == 0 or spec.count == 0:
        return (filled(builder, spec),)
    count = len(ints_attribute(attributes, "window"))
    given = {name: ints_attribute(attributes, name) for name in ("stride", "dilation", "low")}
    return (builder.add("fold", [seed], space=spec.shape[spec.rank - count :], **given),)


# fold


def fold_windows(spec_shape: Sequence[int], attributes: Attributes) -> tuple[Window, ...]:
    """The windows of `fold`, from the shape of its input; `high` is such that they fit.

    Raises:
        GraphError: attribute_invalid.
    """
    space = ints_attribute(attributes, "space")
    count = len(space)
    extents = tuple(spec_shape[len(spec_shape) - 2 * count : len(spec_shape) - count])
    places = spec_shape[len(spec_shape) - count :]
    if any(not 0 <= extent <= _MOST for extent in space):
        raise invalid("fold", "space", space, "integers of 0 or more are wanted")
    plain = read_window("fold", {**attributes, "high": (0,) * count}, extents)
    return tuple(
        Window(
            window.extent,
            window.stride,
            window.dilation,
            window.low,
            max(0, (spots - 1) * window.stride + window.reach) - extent - window.low,
        )
        for window, spots, extent in zip(plain, places, space, strict=True)
    )


def _fold_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    spec, space = inputs[0], ints_attribute(attributes, "space")
    require_dtype("fold", spec, FLOATS)
    if not space or spec.rank < 2 * len(space):
        raise shapes_error("fold", inputs, f"rank {2 * max(1, len(space))} or more is needed")
    fold_windows(spec.shape, attributes)
    return (TensorSpec(spec.dtype, (*spec.shape[: spec.rank - 2 * len(space)], *space)),)


def _fold_cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    space = ints_attribute(attributes, "space")
    kept = math.prod(outputs[0].shape[: outputs[0].rank - len(space)])
    room = math.prod(
        max(0, extent + window.low + window.high)
        for extent, window in zip(space, fold_windows(inputs[0].shape, attributes), strict=True)
    )
    item = DTYPES[inputs[0].dtype].itemsize
    return moved(inputs, outputs, inputs[0].count, item * kept * room)


def fold_into(array: Array, windows: Sequence[Window], out: Array) -> None:
    """`out` = the sums of the elements of windows that meet, in the order of the window's places.

    Args:
        array: [..., *extents of the windows, *places]. out: [..., *space], of the same dtype.
    """
    count = len(windows)
    kept = array.ndim - 2 * count
    spots = array.shape[kept + count :]
    space = out.shape[kept:]
    room = [max(0, n + w.low + w.high) for n, w in zip(space, windows, strict=True)]
    wide = np.zeros((*array.shape[:kept], *room), array.dtype)
    if array.size:
        for place, part in shifts(wide, windows, spots):
            np.add(part, array[at_place(kept, place)], out=part)
    back = [Window(1, 1, 1, -window.low, -window.high) for window in windows]
    out[...] = padded(wide, back, 0)


def _fold(array: Array, attributes: Attributes) -> Array:
    windows = fold_windows(array.shape, attributes)
    space = ints_attribute(attributes, "space")
    result = np.zeros((*array.shape[: array.ndim - 2 * len(space)], *space), array.dtype)
    fold_into(array, windows, result)
    return result


def _fold_reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        return (_fold(inputs[0].astype(np.float64), attributes).astype(inputs[0].dtype),)


def _fold_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    count = len(ints_attribute(attributes, "space"))
    kept = inputs[0].rank - 2 * count
    return (
        *(Split(f"i{axis}", "parallel", (axis,), axis) for axis in range(kept)),
        *(Split(f"k{axis}", "whole", (kept + axis,), None) for axis in range(2 * count)),
        *(Split(f"s{axis}", "whole", (None,), kept + axis) for axis in range(count)),
    )


def _fold_propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """Sums of at most as many terms as a window has elements, in any order."""
    array, error = inputs[0], errors[0]
    loose = np.broadcast_to(0.0 if error is None else error, array.shape).astype(np.float64)
    count = len(ints_attribute(attributes, "space"))
    terms = math.prod(array.shape[array.ndim - 2 * count : array.ndim - count])
    with np.errstate(all="ignore"):
        carried = _fold(loose, attributes)
        size = _fold(np.abs(finite_part(array)), attributes) + carried
        form = format_of(inputs)
        own = (gamma(terms, form) + form.unit) * size + (terms + 1) * form.tiny
        return (guard_overflow(size, carried + own, form),)


def _fold_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    (seed,), (value,) = seeds, inputs
    if seed is None:
        return (None,)
    spec = builder.spec(value)
    if builder.spec(seed).count == 0 or spec.count == 0:
        return (filled(builder, spec),)
    return (_laid_out(builder, seed, fold_windows(spec.shape, attributes)),)


def _laid_out(builder: Builder, value: int, windows: Sequence[Window]) -> int:
    return builder.add(
        "window",
        [value],
        window=tuple(window.extent for window in windows),
        stride=tuple(window.stride for window in windows),
        dilation=tuple(window.dilation for window in windows),
        low=tuple(window.low for window in windows),
        high=tuple(window.high for window in windows),
    )


def _given(*window: int, **changed: object) -> dict[str, object]:
    ones, zeros = (1,) * len(window), (0,) * len(window)
    plain = {"window": window, "stride": ones, "dilation": ones, "low": zeros, "high": zeros}
    return {**plain, **changed}


def _back(*space: int, **changed: object) -> dict[str, object]:
    ones, zeros = (1,) * len(space), (0,) * len(space)
    return {"space": space, "stride": ones, "dilation": ones, "low": zeros, **changed}


WINDOW: Final = moving(
    "window",
    tuple(Attribute(name, "ints") for name in ("dilation", "high", "low", "stride", "window")),
    _infer,
    _move,
    _splits,
    (
        sample("line", normal(2, 7), **_given(3)),
        sample("plane", normal(2, 5, 6), **_given(2, 3, stride=(1, 2), low=(1, 0), high=(0, 2))),
        sample("dilated", normal(9), **_given(3, dilation=(3,), low=(-1,), high=(2,))),
        sample("volume", normal(3, 3, 4), **_given(2, 2, 2)),
        sample("too_short", normal(2, 2), **_given(3)),
        sample("empty", normal(0, 4), **_given(2)),
        sample("size_1", normal(1), **_given(1)),
        sample("strided", strided(normal(2, 6)), **_given(2)),
        sample("special", special(2, 6), **_given(2, low=(1,))),
        sample("int64", ints(8, dtype="int64"), **_given(3, high=(2,))),
        sample("bool", truth(3, 5), **_given(2)),
    ),
    "Sliding windows over the trailing axes, as many as `window` has extents, laid out: "
    "[..., *window, *places]. Padding is zeros; a negative one cuts.",
    _grad,
)

FOLD: Final = Operator(
    name="fold",
    version=1,
    arity=(1, 1),
    attributes=tuple(Attribute(name, "ints") for name in ("dilation", "low", "space", "stride")),
    infer=_fold_infer,
    cost=_fold_cost,
    reference=_fold_reference,
    splits=_fold_splits,
    tolerance=Tolerance(propagate=_fold_propagate),
    samples=(
        sample("line", normal(2, 3, 5), **_back(7)),
        sample("plane", normal(2, 2, 3, 4, 3), **_back(5, 6, stride=(1, 2), low=(1, 0))),
        sample("dilated", normal(3, 4), **_back(9, dilation=(3,), low=(-1,))),
        sample("short", normal(3, 4), **_back(2)),
        sample("volume", normal(2, 2, 1, 2, 3, 2), **_back(3, 4, 2)),
        sample("nothing", normal(3, 0), **_back(4)),
        sample("empty", normal(0, 2, 3), **_back(4)),
        sample("size_1", normal(1, 1), **_back(1)),
        sample("strided", strided(normal(2, 6)), **_back(7)),
        sample("special", special(2, 6), **_back(7)),
    ),
    summary="The sums of windows that were laid out, [..., *extents, *places], where they meet on "
    "trailing axes of extents `space`: the derivative of `window`. What lies outside is left out.",
    grad=_fold_grad,
)

OPERATORS: Final = (WINDOW, FOLD)
