"""Sliding windows: convolution and pooling with one number, or one an axis.

Owns: those arguments on top of the catalog's `conv` and `pool`. Must not: compute a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpugoblin.capture.applying import apply, refused
from gpugoblin.capture.caller import Place
from gpugoblin.capture.expression import Value

__all__ = ["Padding", "conv", "each", "pads", "pool"]

Padding = int | Sequence[int] | Sequence[tuple[int, int]]


def each(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One number an axis."""
    return (value,) * count if isinstance(value, int) else tuple(int(one) for one in value)


def pads(padding: Padding, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Before and after each axis."""
    if isinstance(padding, int):
        return (padding,) * count, (padding,) * count
    pairs = [(one, one) if isinstance(one, int) else (one[0], one[1]) for one in padding]
    return tuple(low for low, _ in pairs), tuple(high for _, high in pairs)


def conv(
    operands: Sequence[Value],
    stride: int | Sequence[int],
    padding: Padding,
    dilation: int | Sequence[int],
    groups: int,
    place: Place,
) -> Value:
    """The convolution of data and kernel.

    Raises:
        CaptureError: `argument_refused`.
    """
    count = operands[0].spec.rank - 2
    if count < 1:
        raise refused(
            "conv", operands, "the data are [examples, channels, *space]",
            "Add the axes that are missing: x[None].", place,
        )  # fmt: skip
    low, high = pads(padding, count)
    node = apply(
        "conv", operands, place, stride=each(stride, count), dilation=each(dilation, count),
        low=low, high=high, between=(0,) * count, groups=groups,
    )  # fmt: skip
    return Value(node, 0)


def pool(
    function: str,
    value: Value,
    window: tuple[int, ...],
    stride: int | Sequence[int] | None,
    padding: Padding,
    dilation: int | Sequence[int],
    place: Place,
) -> Value:
    """The max or the sum of windows over as many trailing axes as `window` has extents.

    Raises:
        CaptureError: `argument_refused`.
    """
    count = len(window)
    low, high = pads(padding, count)
    node = apply(
        "pool", [value], place, function=function, window=window,
        stride=window if stride is None else each(stride, count),
        dilation=each(dilation, count), low=low, high=high,
    )  # fmt: skip
    return Value(node, 0)
