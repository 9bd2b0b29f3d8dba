"""The operator `conv`: convolution in 1 to 3 dimensions, in the orientation of neural networks (the
kernel is not mirrored). Owns: its declaration.

`between` puts zeros between the elements of the data, and paddings may be negative. So a transposed
convolution, and both derivatives of a convolution, are convolutions again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Final

import numpy as np

from gpugoblin.catalog.building import filled, reshaped
from gpugoblin.catalog.rounding import (
    MATMUL_BLOCK,
    chain,
    finite_part,
    format_of,
    gamma,
    guard_overflow,
)
from gpugoblin.catalog.rules import int_attribute, moved, same_dtype, shapes_error
from gpugoblin.catalog.samples import ints, normal, sample, special, strided
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
from gpugoblin.catalog.windows import Window, dilated, padded, read_window, shifts
from gpugoblin.errors import GraphError

__all__ = ["CONV", "OPERATORS", "conv_windows"]


_ACCEPTED: Final = (*FLOATS, "int32")


def conv_windows(kernel: Sequence[int], attributes: Attributes) -> tuple[Window, ...]:
    """The windows of a kernel of shape [outputs, channels, *extents]."""
    return read_window("conv", attributes, tuple(kernel[2:]), spread=True)


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    data, kernel = inputs
    dtype = same_dtype("conv", inputs, _ACCEPTED)
    if data.rank != kernel.rank or not 3 <= data.rank <= 5:
        raise shapes_error("conv", inputs, "ranks of 3 to 5, both the same, are wanted")
    groups = int_attribute(attributes, "groups")
    if not 1 <= groups <= max(1, kernel.shape[0]) or kernel.shape[0] % groups:
        raise GraphError(
            "attribute_invalid",
            operator="conv",
            attribute="groups",
            value=groups,
            reason=f"a divisor of {kernel.shape[0]} outputs is wanted",
        )
    if data.shape[1] != groups * kernel.shape[1]:
        raise shapes_error(
            "conv", inputs, f"{groups * kernel.shape[1]} channels of the data are wanted"
        )
    windows = conv_windows(kernel.shape, attributes)
    places = (w.output(n) for w, n in zip(windows, data.shape[2:], strict=True))
    return (TensorSpec(dtype, (data.shape[0], kernel.shape[0], *places)),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    data, kernel = inputs
    inner = math.prod(kernel.shape[1:])
    room = math.prod(
        max(0, dilated(n, w.between) + w.low + w.high)
        for w, n in zip(conv_windows(kernel.shape, attributes), data.shape[2:], strict=True)
    )
    # The padded data, and blocks of windows laid out as a matrix.
    scratch = DTYPES[data.dtype].itemsize * data.shape[0] * data.shape[1] * room + (16 << 20)
    return moved(inputs, outputs, 2 * outputs[0].count * inner, scratch)


def _convolve(data: Array, kernel: Array, attributes: Attributes) -> Array:
    """In float64 or int64, one place of the kernel after the other."""
    kind: Any = np.float64 if data.dtype.kind == "f" else np.int64
    groups = int_attribute(attributes, "groups")
    windows = conv_windows(kernel.shape, attributes)
    spots = [w.output(n) for w, n in zip(windows, data.shape[2:], strict=True)]
    count, outputs, inner = data.shape[0], kernel.shape[0], kernel.shape[1]
    wide = padded(data.astype(kind), windows, 0)
    total = np.zeros((count, groups, outputs // groups, math.prod(spots)), kind)
    weights = kernel.astype(kind).reshape(groups, outputs // groups, *kernel.shape[1:])
    if total.size:
        for place, part in shifts(wide, windows, spots):
            columns = part.reshape(count, groups, inner, math.prod(spots))
            index: tuple[EllipsisType | int, ...] = (..., *place)
            total = total + np.asarray(weights[index]) @ columns
    return total.reshape(count, outputs, *spots)


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        data, kernel = inputs
        return (_convolve(data, kernel, attributes).astype(data.dtype),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    """Examples and, without groups, outputs are parallel, and channels are summed; places need
    their neighbors."""
    space = range(2, inputs[0].rank)
    windows = conv_windows(inputs[1].shape, attributes)
    if int_attribute(attributes, "groups") == 1:
        channels = (
            Split("o", "parallel", (None, 0), 1),
            Split("c", "sum", (1, 1), None, combine="add"),
        )
    else:
        channels = (Split("o", "whole", (1, 0), 1), Split("c", "whole", (None, 1), None))
    return (
        Split("n", "parallel", (0, None), 0),
        *channels,
        *(
            Split(f"s{axis - 2}", "halo", (axis, None), axis, halo=window.halo)
            for axis, window in zip(space, windows, strict=True)
        ),
        *(Split(f"k{axis - 2}", "whole", (None, axis), None) for axis in space),
    )


def _errors(
    inputs: Sequence[Array], errors: Sequence[Array | None], attributes: Attributes
) -> Array | None:
    """As for a product: gamma of the longest chain times the convolution of absolute values."""
    floating = inputs[0].dtype.kind == "f"
    if not floating and all(error is None for error in errors):
        return None
    data, kernel = (np.abs(finite_part(array)) for array in inputs)
    inner = math.prod(kernel.shape[1:])
    with np.errstate(all="ignore"):
        size = _convolve(data, kernel, attributes)
        carried = np.zeros(size.shape)
        of_data, of_kernel = (
            None if error is None else np.broadcast_to(error, array.shape)
            for error, array in zip(errors, inputs, strict=True)
        )
        if of_data is not None:
            carried = carried + _convolve(of_data, kernel, attributes)
        if of_kernel is not None:
            reach = data if of_data is None else data + of_data
            carried = carried + _convolve(reach, of_kernel, attributes)
        carried = np.where(np.isnan(carried), np.inf, carried)
        size = size + carried
        if not floating:
            return np.where(size >= 2.0**31, np.inf, carried)
        form = format_of(inputs)
        flush = _convolve(data + 1.0, np.full_like(kernel, form.tiny), attributes)
        flush = flush + _convolve(np.full_like(data, form.tiny), kernel, attributes)
        own = (gamma(chain(inner, MATMUL_BLOCK), form) + form.unit) * size + flush
        return guard_overflow(size, carried + own, form)


def _absolute(inputs: Sequence[Array], attributes: Attributes) -> Array | float:
    error = _errors(inputs, (None, None), attributes)
    return 0.0 if error is None else error


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    return (_errors(inputs, errors, attributes),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    (seed,), (data, kernel) = seeds, inputs
    if seed is None:
        return None, None
    if builder.spec(seed).count == 0 or builder.spec(kernel).count == 0:
        return filled(builder, builder.spec(data)), filled(builder, builder.spec(kernel))
    groups = int_attribute(attributes, "groups")
    return (
        _by_data(builder, data, kernel, seed, groups, attributes),
        _by_kernel(builder, data, kernel, seed, groups, attributes),
    )


def _by_data(
    builder: Builder, data: int, kernel: int, seed: int, groups: int, attributes: Attributes
) -> int:
    """The seed, spread by the stride, under the mirrored kernel with inputs and outputs changed."""
    outputs, inner, *extents = builder.spec(kernel).shape
    grouped = reshaped(builder, kernel, (groups, outputs // groups, inner, *extents))
    order = (0, 2, 1, *range(3, 3 + len(extents)))
    turned = builder.add("permute", [grouped], axes=order)
    turned = reshaped(builder, turned, (groups * inner, outputs // groups, *extents))
    mirrored = builder.add("flip", [turned], axes=tuple(range(2, 2 + len(extents))))
    made = []
    for axis, window in enumerate(conv_windows(builder.spec(kernel).shape, attributes)):
        wanted, given = builder.spec(data).shape[2 + axis], builder.spec(seed).shape[2 + axis]
        low = window.reach - 1 - window.low
        last = max(0, wanted - 1) * (window.between + 1) + window.reach
        high = last - dilated(given, window.stride - 1) - low
        step = window.between + 1
        made.append(Window(window.extent, step, window.dilation, low, high, window.stride - 1))
    if builder.spec(data).count == 0:
        return filled(builder, builder.spec(data))
    return _conv(builder, seed, mirrored, made, groups)


def _by_kernel(
    builder: Builder, data: int, kernel: int, seed: int, groups: int, attributes: Attributes
) -> int:
    """The data under the seed as a kernel, with examples as channels."""
    count, channels, *space = builder.spec(data).shape
    inner = channels // groups
    grouped = reshaped(builder, data, (count, groups, inner, *space))
    order = (2, 1, 0, *range(3, 3 + len(space)))
    turned = builder.add("permute", [grouped], axes=order)
    turned = reshaped(builder, turned, (inner, groups * count, *space))
    back = (1, 0, *range(2, 2 + len(space)))
    across = builder.add("permute", [seed], axes=back)
    made = []
    for axis, window in enumerate(conv_windows(builder.spec(kernel).shape, attributes)):
        given = builder.spec(seed).shape[2 + axis]
        reach = (given - 1) * window.stride + 1
        high = window.reach - 1 + reach - dilated(space[axis], window.between) - window.low
        made.append(Window(given, window.dilation, window.stride, window.low, high, window.between))
    found = _conv(builder, turned, across, made, groups)
    return builder.add("permute", [found], axes=back)


def _conv(builder: Builder, data: int, kernel: int, made: Sequence[Window], groups: int) -> int:
    return builder.add(
        "conv",
        [data, kernel],
        stride=tuple(window.stride for window in made),
        dilation=tuple(window.dilation for window in made),
        low=tuple(window.low for window in made),
        high=tuple(window.high for window in made),
        between=tuple(window.between for window in made),
        groups=groups,
    )


def _given(rank: int, **changed: object) -> dict[str, object]:
    plain = {"stride": (1,), "dilation": (1,), "low": (0,), "high": (0,), "between": (0,)}
    given: dict[str, object] = {name: value * rank for name, value in plain.items()}
    return {**given, **changed}


CONV: Final = Operator(
    name="conv",
    version=1,
    arity=(2, 2),
    attributes=(
        Attribute("between", "ints"),
        Attribute("dilation", "ints"),
        Attribute("groups", "int", required=False, default=1),
        Attribute("high", "ints"),
        Attribute("low", "ints"),
        Attribute("stride", "ints"),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(absolute=_absolute, propagate=_propagate),
    samples=(
        sample("line", normal(2, 3, 9), normal(4, 3, 3), **_given(1, low=(1,), high=(1,))),
        sample(
            "plane",
            *(normal(2, 4, 7, 6), normal(6, 4, 3, 2)),
            **_given(2, stride=(2, 1), low=(1, 0), high=(1, 1)),
        ),
        sample("volume", normal(1, 2, 4, 4, 3), normal(3, 2, 2, 2, 2), **_given(3)),
        sample("groups", normal(2, 6, 5, 5), normal(4, 3, 3, 3), **_given(2, groups=2)),
        sample("each", normal(2, 4, 6), normal(4, 1, 3), **_given(1, groups=4, dilation=(2,))),
        sample(
            "transposed",
            *(normal(2, 3, 4, 3), normal(2, 3, 3, 3)),
            **_given(2, between=(1, 2), low=(2, 1), high=(1, 2)),
        ),
        sample("cropped", normal(1, 2, 9), normal(2, 2, 3), **_given(1, low=(-2,), high=(-1,))),
        sample("remainder", normal(1, 2, 8), normal(2, 2, 3), **_given(1, stride=(3,))),
        sample("empty", normal(0, 2, 5), normal(3, 2, 3), **_given(1)),
        sample("too_short", normal(2, 2, 2), normal(3, 2, 3), **_given(1)),
        sample("size_1", normal(1, 1, 1), normal(1, 1, 1), **_given(1)),
        sample("strided", strided(normal(2, 2, 6)), strided(normal(3, 2, 3)), **_given(1)),
        sample(
            "wrap",
            ints(2, 2, 6, low=2**30, high=2**31 - 1),
            ints(3, 2, 3),
            **_given(1, low=(1,), high=(1,)),
        ),
        sample("special", special(2, 2, 6), special(3, 2, 3), **_given(1)),
    ),
    summary="Products of a kernel [outputs, channels / groups, *extents] with the windows of data "
    "[examples, channels, *space] in 1 to 3 dimensions: [examples, outputs, *places]. `between` "
    "zeros lie between neighbors of the data, `low` and `high` around it; negative ones cut.",
    grad=_grad,
)

OPERATORS: Final = (CONV,)
