"""Picking elements: take (by positions) and topk (by size).

Owns: the checks that can be made before anything is sent: positions that are known here are
bounded here.
"""

from __future__ import annotations

import numpy as np

from gpugoblin.capture.applying import apply, refused
from gpugoblin.capture.caller import Place
from gpugoblin.capture.convert import MAX_CONSTANT_BYTES, constant_value, memory_value
from gpugoblin.capture.expression import Value
from gpugoblin.capture.shaping import normal_axis
from gpugoblin.capture.source import MemorySource

__all__ = ["take", "topk"]


def take(value: Value, indices: Value, axis: int, place: Place) -> Value:
    """The slices at `indices` along `axis`; the axes of `indices` take its place.

    Negative positions count from the end when they are known here; lazy ones must not be negative.

    Raises:
        CaptureError: `argument_refused`.
    """
    axis = normal_axis("take", value, axis, place)
    if indices.spec.dtype not in ("int32", "int64"):
        raise refused(
            "take",
            [value, indices],
            "positions are int32 or int64",
            'Convert them: .astype("int64").',
            place,
        )
    indices = _known(value, indices, axis, place)
    return Value(apply("gather", [value, indices], place, axis=axis), 0)


def topk(value: Value, count: int, axis: int, largest: bool, place: Place) -> tuple[Value, Value]:
    """The `count` largest (or smallest) elements along `axis`, in order, and where they are."""
    axis = normal_axis("topk", value, axis, place)
    node = apply("topk", [value], place, k=int(count), axis=axis, largest=bool(largest))
    return Value(node, 0), Value(node, 1)


def _known(value: Value, indices: Value, axis: int, place: Place) -> Value:
    """Positions in memory: bounded, counted from 0, and part of the graph where they are few."""
    source = indices.node.source
    if not isinstance(source, MemorySource):
        return indices
    extent = value.spec.shape[axis]
    positions = source.array
    if positions.size:
        low, high = int(positions.min()), int(positions.max())
        if low < -extent or high >= extent:
            wrong = low if low < -extent else high
            raise refused(
                "take",
                [value, indices],
                f"position {wrong} is outside axis {axis}",
                f"Use {-extent} to {extent - 1}." if extent else "The axis is empty.",
                place,
            )
        if low < 0:
            positions = np.where(positions < 0, positions + extent, positions)
            positions = positions.astype(source.array.dtype)
    if positions.nbytes <= MAX_CONSTANT_BYTES:
        return constant_value(positions, place)
    return indices if positions is source.array else memory_value(positions, place)
