"""conv_transposed, average_pool and adaptive_pool. Owns: their declarations.

All three are `conv` and `pool` with arguments that other programs give otherwise; what they mean
at the edges is what PyTorch and ONNX mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.building import call, expression, number, reshaped
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.moving import invalid
from gpugoblin.catalog.rules import (
    bool_attribute,
    int_attribute,
    ints_attribute,
    require_dtype,
    require_rank,
    same_dtype,
    shapes_error,
    text_attribute,
)
from gpugoblin.catalog.samples import normal, sample, special, strided
from gpugoblin.catalog.spec import DTYPES, FLOATS, Array, Attribute, Attributes, Builder, TensorSpec
from gpugoblin.catalog.windows import Window, read_window

__all__ = ["OPERATORS"]

_MOST: Final = 2**31


# conv_transposed


def _require_transposed(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    data, kernel = inputs
    same_dtype("conv_transposed", inputs, FLOATS)
    if data.rank != kernel.rank or not 3 <= data.rank <= 5:
        reason = "ranks of 3 to 5, both the same, are wanted"
        raise shapes_error("conv_transposed", inputs, reason)
    groups = int_attribute(attributes, "groups")
    if not 1 <= groups <= max(1, data.shape[1]) or data.shape[1] % groups:
        reason = f"a divisor of {data.shape[1]} channels is wanted"
        raise invalid("conv_transposed", "groups", groups, reason)
    if data.shape[1] != kernel.shape[0]:
        reason = f"a kernel of {data.shape[1]} inputs is wanted"
        raise shapes_error("conv_transposed", inputs, reason)
    _read_pads(
        "conv_transposed", attributes, data.rank - 2, ("stride", "dilation", "low", "high", "extra")
    )


def _read_pads(operator: str, attributes: Attributes, count: int, names: Sequence[str]) -> None:
    """Requires one integer an axis; strides and dilations of 1 or more; `extra` of 0 or more."""
    least = {"stride": 1, "dilation": 1, "extra": 0}
    for name in names:
        value = ints_attribute(attributes, name)
        lowest = least.get(name, -_MOST)
        if name == "extra" and not value:
            continue
        if len(value) != count or any(not lowest <= item <= _MOST for item in value):
            raise invalid(operator, name, value, f"{count} integers of {lowest} or more are wanted")


def _extra(attributes: Attributes, count: int) -> tuple[int, ...]:
    return ints_attribute(attributes, "extra") or (0,) * count


def _transposed(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    """The data, spread by the stride, under the mirrored kernel."""
    data, kernel = inputs
    groups = int_attribute(attributes, "groups")
    channels, outputs, *extents = builder.spec(kernel).shape
    space = tuple(range(2, 2 + len(extents)))
    grouped = reshaped(builder, kernel, (groups, channels // groups, outputs, *extents))
    order = (0, 2, 1, *(axis + 1 for axis in space))
    turned = builder.add("permute", [grouped], axes=order)
    turned = reshaped(builder, turned, (groups * outputs, channels // groups, *extents))
    mirrored = builder.add("flip", [turned], axes=space)
    dilation = ints_attribute(attributes, "dilation")
    reach = [(extent - 1) * step for extent, step in zip(extents, dilation, strict=True)]
    low, high = (ints_attribute(attributes, name) for name in ("low", "high"))
    extra = _extra(attributes, len(extents))
    made = builder.add(
        "conv",
        [data, mirrored],
        stride=(1,) * len(extents),
        dilation=dilation,
        between=tuple(stride - 1 for stride in ints_attribute(attributes, "stride")),
        low=tuple(far - pad for far, pad in zip(reach, low, strict=True)),
        high=tuple(far - pad + more for far, pad, more in zip(reach, high, extra, strict=True)),
        groups=groups,
    )
    return (made,)


def _turned(rank: int, **changed: object) -> dict[str, object]:
    plain: dict[str, object] = {
        "stride": (1,) * rank,
        "dilation": (1,) * rank,
        "low": (0,) * rank,
        "high": (0,) * rank,
    }
    return {**plain, **changed}


# average_pool


def _windows(attributes: Attributes) -> tuple[Window, ...]:
    return read_window("average_pool", attributes, ints_attribute(attributes, "window"))


def _require_average(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    require_dtype("average_pool", inputs[0], FLOATS)
    windows = _windows(attributes)
    require_rank("average_pool", inputs[0], len(windows))
    _read_pads("average_pool", attributes, len(windows), ("extra",))


def _counts(window: Window, extent: int, extra: int, padding: bool) -> Array:
    """For each place along an axis how many elements its window has that count."""
    wide = Window(window.extent, window.stride, window.dilation, window.low, window.high + extra)
    first = np.arange(wide.output(extent))[:, None] * window.stride - window.low
    places = first + np.arange(window.extent) * window.dilation
    low, high = (-window.low, extent + window.high) if padding else (0, extent)
    inside: Array = (places >= low) & (places < high)
    return np.asarray(np.sum(inside, axis=1))


def _average(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    (value,) = inputs
    spec, windows = builder.spec(value), _windows(attributes)
    extra = _extra(attributes, len(windows))
    total = builder.add(
        "pool",
        [value],
        function="sum",
        window=tuple(window.extent for window in windows),
        stride=tuple(window.stride for window in windows),
        dilation=tuple(window.dilation for window in windows),
        low=tuple(window.low for window in windows),
        high=tuple(window.high + more for window, more in zip(windows, extra, strict=True)),
    )
    padding = bool_attribute(attributes, "count_padding")
    kept = spec.rank - len(windows)
    counts = [
        _counts(window, extent, more, padding)
        for window, extent, more in zip(windows, spec.shape[kept:], extra, strict=True)
    ]
    return (_divided(builder, total, counts),)


def _divided(builder: Builder, total: int, counts: Sequence[Array]) -> int:
    """`total` over the products of counts, which stand along its last axes."""
    dtype = builder.spec(total).dtype
    common, operands = 1, [total]
    for axis, line in enumerate(counts):
        if line.size and (line == line[0]).all():
            common *= int(line[0])
        elif line.size:
            shape = (line.size, *(1,) * (len(counts) - axis - 1))
            operands.append(builder.constant(line.astype(DTYPES[dtype]).reshape(shape)))
    operands.append(number(builder, float(common), dtype))

    def write(build: FormulaBuilder, value: int, first: int, *rest: int) -> int:
        for one in rest:
            first = build.call("mul", first, one)
        return build.call("div", value, first)

    return expression(builder, operands, write)


# adaptive_pool


def _require_adaptive(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    places = ints_attribute(attributes, "places")
    require_dtype("adaptive_pool", inputs[0], FLOATS)
    require_rank("adaptive_pool", inputs[0], len(places))
    if not places or min(places) < 1:
        raise invalid("adaptive_pool", "places", places, "integers of 1 or more are wanted")
    space = inputs[0].shape[inputs[0].rank - len(places) :]
    if 0 in space:
        raise shapes_error("adaptive_pool", inputs, "an axis that is pooled has no elements")


def _adaptive(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    """Place i of m takes elements floor(i n / m) to ceil((i + 1) n / m) of n.

    Where m does not divide n the elements of each place are laid out side by side, as many as the
    longest has, and neutral ones follow them.
    """
    (value,) = inputs
    places = ints_attribute(attributes, "places")
    largest = text_attribute(attributes, "function") == "max"
    kept = builder.spec(value).rank - len(places)
    counts, extents = [], []
    for axis, count in enumerate(places, kept):
        extent = builder.spec(value).shape[axis]
        first = np.arange(count) * extent // count
        sizes = -(-np.arange(1, count + 1) * extent // count) - first
        counts.append(sizes)
        extents.append(int(sizes.max()))
        if extent % count:
            value = _laid_out(builder, value, axis, first, sizes, largest)
    pooled = builder.add(
        "pool",
        [value],
        function="max" if largest else "sum",
        window=tuple(extents),
        stride=tuple(extents),
        dilation=(1,) * len(places),
        low=(0,) * len(places),
        high=(0,) * len(places),
    )
    return (pooled if largest else _divided(builder, pooled, counts),)


def _laid_out(
    builder: Builder, value: int, axis: int, first: Array, sizes: Array, largest: bool
) -> int:
    spec = builder.spec(value)
    offsets = np.arange(sizes.max())
    there = (offsets < sizes[:, None]).reshape(-1)
    index = np.minimum(first[:, None] + offsets, spec.shape[axis] - 1).reshape(-1)
    places = builder.constant(index.astype(np.int64))
    taken = builder.add("gather", [value, places], axis=axis)
    mask = builder.constant(there.reshape(-1, *(1,) * (spec.rank - axis - 1)))
    neutral = number(builder, -np.inf if largest else 0.0, spec.dtype)
    return call(builder, "where", mask, taken, neutral)


def _given(*window: int, **changed: object) -> dict[str, object]:
    ones, zeros = (1,) * len(window), (0,) * len(window)
    plain = {"window": window, "stride": window, "dilation": ones, "low": zeros, "high": zeros}
    return {**plain, **changed}


_SLIDING: Final = (Attribute("high", "ints"), Attribute("low", "ints"), Attribute("stride", "ints"))

OPERATORS: Final = (
    composite(
        "conv_transposed",
        (2, 2),
        (
            Attribute("dilation", "ints"),
            Attribute("extra", "ints", required=False, default=()),
            Attribute("groups", "int", required=False, default=1),
            *_SLIDING,
        ),
        _require_transposed,
        _transposed,
        (
            sample("line", normal(2, 3, 5), normal(3, 4, 3), **_turned(1, stride=(2,))),
            sample(
                "plane",
                *(normal(1, 4, 3, 4), normal(4, 2, 3, 2)),
                **_turned(2, stride=(2, 3), low=(1, 0), high=(1, 1), extra=(1, 0)),
            ),
            sample("volume", normal(1, 2, 2, 3, 2), normal(2, 1, 2, 2, 2), **_turned(3)),
            sample(
                "groups",
                *(normal(2, 4, 4), normal(4, 3, 3)),
                **_turned(1, groups=2, dilation=(2,), low=(1,), high=(2,)),
            ),
            sample("empty", normal(0, 2, 4), normal(2, 3, 3), **_turned(1)),
            sample("size_1", normal(1, 1, 1), normal(1, 1, 1), **_turned(1)),
            sample("strided", strided(normal(1, 2, 4)), strided(normal(2, 3, 3)), **_turned(1)),
            sample("special", special(1, 2, 5), special(2, 2, 3), **_turned(1, stride=(2,))),
        ),
        "Transposed convolution: the derivative by the data of a convolution with the kernel "
        "[channels, outputs / groups, *extents]. `low` and `high` are cut from the result, `extra` "
        "is added at its end.",
    ),
    composite(
        "average_pool",
        (1, 1),
        (
            Attribute("count_padding", "bool", required=False, default=True),
            Attribute("dilation", "ints"),
            Attribute("extra", "ints", required=False, default=()),
            *_SLIDING,
            Attribute("window", "ints"),
        ),
        _require_average,
        _average,
        (
            sample("plane", normal(2, 6, 7), **_given(2, 3)),
            sample("padded", normal(2, 7, 6), **_given(3, 2, low=(1, 1), high=(1, 0))),
            sample(
                "not_counted",
                normal(2, 7, 6),
                **_given(3, 2, low=(1, 1), high=(1, 0), stride=(2, 1), count_padding=False),
            ),
            sample("extra", normal(3, 8), **_given(3, low=(1,), high=(1,), extra=(2,))),
            sample("dilated", normal(9), **_given(3, dilation=(2,), stride=(1,))),
            sample("volume", normal(2, 4, 4, 4), **_given(2, 2, 2)),
            sample("empty", normal(0, 4), **_given(2)),
            sample("size_1", normal(1), **_given(1)),
            sample("strided", strided(normal(2, 6)), **_given(2)),
            sample("special", special(3, 6), **_given(3)),
        ),
        "The means of windows that slide over the trailing axes. `count_padding`: whether `low` "
        "and `high` count as zeros or do not count; `extra` at the end never counts.",
    ),
    composite(
        "adaptive_pool",
        (1, 1),
        (
            Attribute("function", "choice", choices=("max", "mean")),
            Attribute("places", "ints"),
        ),
        _require_adaptive,
        _adaptive,
        (
            sample("even", normal(2, 3, 6, 8), function="mean", places=(3, 2)),
            sample("uneven", normal(2, 7, 5), function="mean", places=(3, 4)),
            sample("max", normal(2, 7, 5), function="max", places=(3, 4)),
            sample("more", normal(2, 3), function="max", places=(7,)),
            sample("whole", normal(2, 5, 5), function="mean", places=(1, 1)),
            sample("empty", normal(0, 5), function="mean", places=(2,)),
            sample("size_1", normal(1), function="max", places=(1,)),
            sample("strided", strided(normal(2, 7)), function="mean", places=(3,)),
            sample("special", special(2, 7), function="max", places=(3,)),
        ),
        "The mean or the max of parts of the trailing axes, as many of each as `places` says: part "
        "i of m takes elements floor(i n / m) to ceil((i + 1) n / m) of n.",
    ),
)
