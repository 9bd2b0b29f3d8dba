"""The operator `pool`: the sum or the maximum of sliding windows. Owns: its declaration.

Padding is neutral: 0 for sums, -infinity for maxima.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gpugoblin.catalog.building import call, filled, number
from gpugoblin.catalog.rounding import finite_part, format_of, gamma, guard_overflow, with_flush
from gpugoblin.catalog.rules import (
    ints_attribute,
    moved,
    require_dtype,
    require_rank,
    text_attribute,
)
from gpugoblin.catalog.samples import normal, sample, special, strided
from gpugoblin.catalog.spec import (
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

__all__ = ["OPERATORS", "POOL", "pool_windows"]


def pool_windows(attributes: Attributes) -> tuple[Window, ...]:
    """The windows, over as many trailing axes."""
    return read_window("pool", attributes, ints_attribute(attributes, "window"))


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    spec = inputs[0]
    require_dtype("pool", spec, FLOATS)
    windows = pool_windows(attributes)
    require_rank("pool", spec, len(windows))
    kept = spec.rank - len(windows)
    places = (w.output(n) for w, n in zip(windows, spec.shape[kept:], strict=True))
    return (TensorSpec(spec.dtype, (*spec.shape[:kept], *places)),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    windows, spec = pool_windows(attributes), inputs[0]
    kept = spec.rank - len(windows)
    room = math.prod(
        max(0, n + w.low + w.high) for w, n in zip(windows, spec.shape[kept:], strict=True)
    )
    flops = outputs[0].count * math.prod(window.extent for window in windows)
    return moved(inputs, outputs, flops, 4 * math.prod(spec.shape[:kept]) * room)


def _pool(array: Array, attributes: Attributes, ufunc: np.ufunc, neutral: float) -> Array:
    windows = pool_windows(attributes)
    kept = array.ndim - len(windows)
    spots = [w.output(n) for w, n in zip(windows, array.shape[kept:], strict=True)]
    result = np.full((*array.shape[:kept], *spots), neutral)
    if result.size:
        for _, part in shifts(padded(array, windows, neutral), windows, spots):
            result = ufunc(result, part)
    return result


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    wide = inputs[0].astype(np.float64)
    with np.errstate(all="ignore"):
        if text_attribute(attributes, "function") == "max":
            result = _pool(wide, attributes, np.maximum, -np.inf)
        else:
            result = _pool(wide, attributes, np.add, 0.0)
        return (result.astype(inputs[0].dtype),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    windows = pool_windows(attributes)
    kept = inputs[0].rank - len(windows)
    return (
        *(Split(f"i{axis}", "parallel", (axis,), axis) for axis in range(kept)),
        *(
            Split(f"i{axis}", "halo", (axis,), axis, halo=window.halo)
            for axis, window in enumerate(windows, kept)
        ),
    )


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """Sums in any order; a maximum moves no further than the loosest element of its window."""
    array, error = inputs[0], errors[0]
    if text_attribute(attributes, "function") == "max":
        error = with_flush(array, error)
        if error is None:
            return (None,)
        loose = np.broadcast_to(error, array.shape).astype(np.float64)
        return (_pool(loose, attributes, np.maximum, 0.0),)
    loose = np.broadcast_to(0.0 if error is None else error, array.shape).astype(np.float64)
    count = math.prod(ints_attribute(attributes, "window"))
    with np.errstate(all="ignore"):
        carried = _pool(loose, attributes, np.add, 0.0)
        size = _pool(np.abs(finite_part(array)), attributes, np.add, 0.0) + carried
        form = format_of(inputs)
        own = (gamma(count, form) + 2 * form.unit) * size + 2 * (count + 1) * form.tiny
        return (guard_overflow(size, carried + own, form),)


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
    spec, windows = builder.spec(value), pool_windows(attributes)
    if builder.spec(seed).count == 0 or spec.count == 0:
        return (filled(builder, spec),)
    first = spec.rank - len(windows)
    if text_attribute(attributes, "function") == "sum":
        return (_sum_grad(builder, spec, windows, seed),)
    # A maximum over a box is that over its lines, one axis after the other; last axis first, so
    # that the first of equal elements in C order gets the seed.
    levels = [value]
    axes = list(range(len(windows) - 1, -1, -1))
    for place in axes:
        levels.append(_line(builder, levels[-1], first + place, windows[place]))
    for number_, place in reversed(list(enumerate(axes))):
        source, result = levels[number_], levels[number_ + 1]
        seed = _max_grad(builder, source, result, seed, first + place, windows[place])
    return (seed,)


def _sum_grad(builder: Builder, spec: TensorSpec, windows: Sequence[Window], seed: int) -> int:
    """Each element gets the sum of the seeds whose windows it is in."""
    kept = spec.rank - len(windows)
    given = builder.spec(seed).shape[kept:]
    between = (*(0,) * kept, *(window.stride - 1 for window in windows))
    none = (0,) * spec.rank
    apart = builder.add(
        "pad", [seed, number(builder, 0.0, spec.dtype)], low=none, high=none, between=between
    )
    made = []
    for window, whole, count in zip(windows, spec.shape[kept:], given, strict=True):
        low = window.reach - 1 - window.low
        high = whole - 1 + window.reach - ((count - 1) * window.stride + 1) - low
        made.append(replace(window, stride=1, low=low, high=high))
    return _add(builder, apart, "sum", made)


def _add(builder: Builder, value: int, function: str, windows: Sequence[Window]) -> int:
    return builder.add(
        "pool",
        [value],
        function=function,
        window=tuple(window.extent for window in windows),
        stride=tuple(window.stride for window in windows),
        dilation=tuple(window.dilation for window in windows),
        low=tuple(window.low for window in windows),
        high=tuple(window.high for window in windows),
    )


def _line(builder: Builder, value: int, axis: int, window: Window) -> int:
    """The maximum along one axis."""
    still = [Window(1, 1, 1, 0, 0)] * (builder.spec(value).rank - axis - 1)
    return _add(builder, value, "max", [window, *still])


def _max_grad(
    builder: Builder, value: int, result: int, seed: int, axis: int, window: Window
) -> int:
    """The first element of each line that equals its maximum gets the seed."""
    spec = builder.spec(value)
    count, rank = builder.spec(result).shape[axis], spec.rank
    extent = spec.shape[axis]
    lowest = number(builder, -math.inf, spec.dtype)
    zero = number(builder, 0.0, spec.dtype)

    def one(item: int, others: int = 0) -> tuple[int, ...]:
        return tuple(item if place == axis else others for place in range(rank))

    around = {"low": one(max(0, window.low)), "high": one(max(0, window.high))}
    wide = builder.add("pad", [value, lowest], between=one(0), **around)
    room = builder.spec(wide).shape[axis]
    skipped, end = max(0, -window.low), room - max(0, -window.high)
    shape = builder.spec(wide).shape
    total: int | None = None
    free: int | None = None
    for offset in range(window.extent):
        start = skipped + offset * window.dilation
        stop = start + (count - 1) * window.stride + 1
        part = builder.add(
            "slice",
            [wide],
            start=one(start),
            stop=tuple(stop if p == axis else n for p, n in enumerate(shape)),
            step=one(window.stride, 1),
        )
        equal = call(builder, "eq", part, result)
        chosen = equal if free is None else call(builder, "and", equal, free)
        unmet = call(builder, "not", equal)
        free = unmet if free is None else call(builder, "and", free, unmet)
        share = builder.add(
            "pad",
            [call(builder, "where", chosen, seed, zero), zero],
            low=one(start),
            high=one(room - stop),
            between=one(window.stride - 1),
        )
        total = share if total is None else call(builder, "add", total, share)
    if total is None or end < 0:
        raise ValueError("a window has at least one element")
    return builder.add(
        "slice",
        [total],
        start=one(max(0, window.low)),
        stop=tuple(max(0, window.low) + extent if p == axis else n for p, n in enumerate(shape)),
        step=(1,) * rank,
    )


def _given(function: str, *window: int, **changed: tuple[int, ...]) -> dict[str, object]:
    ones, zeros = (1,) * len(window), (0,) * len(window)
    plain = {"stride": ones, "dilation": ones, "low": zeros, "high": zeros}
    return {"function": function, "window": window, **plain, **changed}


POOL: Final = Operator(
    name="pool",
    version=1,
    arity=(1, 1),
    attributes=(
        Attribute("dilation", "ints"),
        Attribute("function", "choice", choices=("max", "sum")),
        Attribute("high", "ints"),
        Attribute("low", "ints"),
        Attribute("stride", "ints"),
        Attribute("window", "ints"),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("max", normal(2, 3, 6, 7), **_given("max", 2, 3, stride=(2, 2))),
        sample(
            "max_padded",
            normal(2, 7, 6),
            **_given("max", 3, 3, stride=(2, 1), low=(1, 1), high=(1, 1)),
        ),
        sample("sum", normal(2, 3, 8), **_given("sum", 3, stride=(2,), low=(1,), high=(1,))),
        sample("sum_dilated", normal(3, 9, 5), **_given("sum", 3, 2, dilation=(3, 2))),
        sample("cropped", normal(2, 9), **_given("sum", 2, low=(-2,), high=(-1,))),
        sample("max_cropped", normal(2, 9), **_given("max", 2, low=(-2,), high=(-1,))),
        sample("remainder", normal(2, 8), **_given("max", 2, stride=(3,))),
        sample("empty", normal(0, 5), **_given("sum", 2)),
        sample("too_short", normal(2, 2), **_given("max", 3)),
        sample("size_1", normal(1), **_given("max", 1)),
        sample("strided", strided(normal(3, 6)), **_given("sum", 2)),
        sample("special", special(3, 6), **_given("max", 3)),
        sample("special_sum", special(3, 6), **_given("sum", 3)),
    ),
    summary="The max or the sum of windows that slide over the trailing axes, as many as `window` "
    "has extents. Padding is neutral; a negative one cuts.",
    grad=_grad,
)

OPERATORS: Final = (POOL,)
