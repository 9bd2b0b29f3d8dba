"""window and fold on a card: windows laid out, and added back. Owns their kernels.

A thread for each result, so that the sums of `fold` have one order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.narrow import RAW
from app.engine.backends.card.sliding import meets
from app.engine.backends.card.stages import coordinates, each, place_of, row_major
from app.engine.backends.card.values import Value
from gpugoblin.catalog.ops.sliding import fold_windows, sliding_windows
from gpugoblin.catalog.spec import Attributes, TensorSpec

__all__ = ["fold", "window"]

Specs = Sequence[TensorSpec]


def window(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    source, out = inputs[0], outputs[0]
    windows = sliding_windows(attributes)
    kept, count = source.rank - len(windows), len(windows)
    extents, shape = source.shape[kept:], out.shape[kept:]
    inner = math.prod(shape)
    raw = RAW[out.dtype]

    def body(kernel: Kernel, index: Value) -> None:
        places = coordinates(index % inner, shape)
        inside, at = meets(windows, extents, places[count:], places[:count])
        value = kernel.variable(raw)
        value.set(0)
        with kernel.when(inside):
            value.set(kernel.load(raw, 0, (index // inner) * math.prod(extents) + at))
        kernel.store(1, index, value.get())

    return Emission(tuple(each(out.count, 2, body)))


def fold(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    source, out = inputs[0], outputs[0]
    windows = fold_windows(source.shape, attributes)
    count = len(windows)
    kept = out.rank - count
    taps, spots = source.shape[kept : kept + count], source.shape[kept + count :]
    inner, plane = math.prod(out.shape[kept:]), math.prod(source.shape[kept:])

    def body(kernel: Kernel, index: Value) -> None:
        places = coordinates(index % inner, out.shape[kept:])
        total = kernel.variable(out.dtype, 0)
        with kernel.loop(0, math.prod(taps)) as tap:
            inside = kernel.number("bool", True)
            found = []
            offsets = coordinates(tap, taps)
            for one, place, offset, extent in zip(windows, places, offsets, spots, strict=True):
                moved = place + one.low % 2**32 - offset * one.dilation
                spot = moved // one.stride
                inside = inside & (moved % one.stride).same(0) & (spot < extent)
                found.append(spot)
            with kernel.when(inside):
                base = (index // inner) * plane + tap * math.prod(spots)
                value = kernel.load(out.dtype, 0, base + place_of(found, row_major(spots)))
                total.set(total.get() + value)
        kernel.store(1, index, total.get())

    return Emission(tuple(each(out.count, 2, body)))
