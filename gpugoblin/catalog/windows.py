"""Windows that slide over trailing axes: what convolution and pooling share.

Owns: the arithmetic of extents and paddings, and cutting a padded array. Paddings may be negative:
then elements are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from types import EllipsisType
from typing import Final

import numpy as np

from gpugoblin.catalog.rules import ints_attribute
from gpugoblin.catalog.spec import Array, Attributes, Halo
from gpugoblin.errors import GraphError

__all__ = ["WINDOW_NAMES", "Window", "dilated", "padded", "read_window", "shifts"]

WINDOW_NAMES: Final = ("dilation", "high", "low", "stride")
_MOST: Final = 2**31


@dataclass(frozen=True, slots=True)
class Window:
    """One axis: `extent` elements of the window, `dilation` apart, moved by `stride` over an axis
    that has `between` elements put between neighbors and `low` and `high` around it."""

    extent: int
    stride: int
    dilation: int
    low: int
    high: int
    between: int = 0

    @property
    def reach(self) -> int:
        """Elements from the first to the last of the window."""
        return (self.extent - 1) * self.dilation + 1

    @property
    def halo(self) -> Halo:
        return Halo(self.stride, self.low, self.reach, self.between)

    def output(self, extent: int) -> int:
        room = dilated(extent, self.between) + self.low + self.high - self.reach
        return room // self.stride + 1 if room >= 0 else 0


def dilated(extent: int, between: int) -> int:
    """The extent of an axis with `between` elements put between neighbors."""
    return extent + max(0, extent - 1) * between


def read_window(
    operator: str, attributes: Attributes, extents: Sequence[int], *, spread: bool = False
) -> tuple[Window, ...]:
    """The windows of an operator, one an axis.

    Args:
        spread: the operator has the attribute `between`.

    Raises:
        GraphError: attribute_invalid.
    """
    names = (*WINDOW_NAMES, "between") if spread else WINDOW_NAMES
    least = {"stride": 1, "dilation": 1, "between": 0}
    given = {}
    for name in names:
        value = ints_attribute(attributes, name)
        lowest = least.get(name, -_MOST)
        if len(value) != len(extents) or any(not lowest <= item <= _MOST for item in value):
            raise GraphError(
                "attribute_invalid",
                operator=operator,
                attribute=name,
                value=value,
                reason=f"{len(extents)} integers of {lowest} or more are wanted",
            )
        given[name] = value
    if any(not 1 <= extent <= _MOST for extent in extents):
        raise GraphError(
            "attribute_invalid",
            operator=operator,
            attribute="window",
            value=tuple(extents),
            reason="extents of 1 or more are wanted",
        )
    return tuple(
        Window(
            extent,
            stride=given["stride"][axis],
            dilation=given["dilation"][axis],
            low=given["low"][axis],
            high=given["high"][axis],
            between=given["between"][axis] if spread else 0,
        )
        for axis, extent in enumerate(extents)
    )


def padded(array: Array, windows: Sequence[Window], value: float) -> Array:
    """The array as the windows see it; its trailing axes are theirs."""
    kept = array.shape[: array.ndim - len(windows)]
    shape = list(kept)
    source: list[slice] = [slice(None)] * len(kept)
    target: list[slice] = [slice(None)] * len(kept)
    for extent, window in zip(array.shape[len(kept) :], windows, strict=True):
        step = window.between + 1
        room = max(0, dilated(extent, window.between) + window.low + window.high)
        shape.append(room)
        first = max(0, -(window.low // step))
        last = min(extent, -(-(room - window.low) // step))
        last = max(first, last)
        start = window.low + first * step
        source.append(slice(first, last))
        target.append(slice(start, start + max(0, (last - first - 1) * step + 1), step))
    result = np.full(shape, value, array.dtype)
    result[tuple(target)] = array[tuple(source)]
    return result


def shifts(
    array: Array, windows: Sequence[Window], outputs: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each element of the window its place, and the padded array as that element meets it."""
    for place in product(*(range(window.extent) for window in windows)):
        cut: tuple[EllipsisType | slice, ...] = (
            ...,
            *(
                slice(
                    offset * window.dilation,
                    offset * window.dilation + max(0, (count - 1) * window.stride + 1),
                    window.stride,
                )
                for offset, window, count in zip(place, windows, outputs, strict=True)
            ),
        )
        yield place, array[cut]
