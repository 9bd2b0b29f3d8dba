"""conv and pool on a card: a thread for each result, over the elements of its window.

Owns: their kernels. Sums are made channel by channel, so no chain of additions is long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.functions import maximum
from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.stages import coordinates, each, place_of, row_major
from app.engine.backends.card.values import Value
from gpugoblin.catalog.ops.convolution import conv_windows
from gpugoblin.catalog.ops.pooling import pool_windows
from gpugoblin.catalog.rules import int_attribute, text_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec
from gpugoblin.catalog.windows import Window, dilated

__all__ = ["conv", "meets", "pool"]

Specs = Sequence[TensorSpec]


def meets(
    windows: Sequence[Window],
    extents: Sequence[int],
    spots: Sequence[Value],
    taps: Sequence[Value],
) -> tuple[Value, Value]:
    """Whether an element of the window lies on one of the data, and its place there."""
    kernel = spots[0].kernel
    inside = kernel.number("bool", True)
    places = []
    for window, extent, spot, tap in zip(windows, extents, spots, taps, strict=True):
        seen = spot * window.stride + tap * window.dilation - window.low % 2**32
        step = window.between + 1
        inside = inside & (seen < dilated(extent, window.between)) & (seen % step).same(0)
        places.append(seen // step)
    return inside, place_of(places, row_major(extents))


def conv(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    data, weights = inputs
    out = outputs[0]
    groups = int_attribute(attributes, "groups")
    windows = conv_windows(weights.shape, attributes)
    extents, taps = data.shape[2:], weights.shape[2:]
    channels, count = weights.shape[1], math.prod(weights.shape[2:])
    plane = math.prod(extents)

    def body(kernel: Kernel, index: Value) -> None:
        example, output, *spots = coordinates(index, out.shape)
        group = output // max(1, weights.shape[0] // groups)
        total = kernel.variable(out.dtype, 0)
        part = kernel.variable(out.dtype)
        with kernel.loop(0, channels) as channel:
            part.set(0)
            base = (example * data.shape[1] + group * channels + channel) * plane
            row = (output * channels + channel) * count
            with kernel.loop(0, count) as tap:
                inside, place = meets(windows, extents, spots, coordinates(tap, taps))
                # What lies around the data is zero, and zero times infinity is NaN.
                value = kernel.variable(out.dtype)
                value.set(0)
                with kernel.when(inside):
                    value.set(kernel.load(out.dtype, 0, base + place))
                factor = kernel.load(out.dtype, 1, row + tap)
                part.set(part.get() + value.get() * factor)
            total.set(total.get() + part.get())
        kernel.store(2, index, total.get())

    return Emission(tuple(each(out.count, 3, body)))


def pool(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    source, out = inputs[0], outputs[0]
    windows = pool_windows(attributes)
    kept = source.rank - len(windows)
    extents = source.shape[kept:]
    taps = [window.extent for window in windows]
    largest = text_attribute(attributes, "function") == "max"
    plane = math.prod(extents)

    def body(kernel: Kernel, index: Value) -> None:
        outer = math.prod(out.shape[kept:])
        spots = coordinates(index % outer, out.shape[kept:])
        base = (index // outer) * plane
        total = kernel.variable("float32", -math.inf if largest else 0.0)
        part = kernel.variable("float32")
        rest = math.prod(taps[1:])
        with kernel.loop(0, taps[0]) as first:
            part.set(-math.inf if largest else 0.0)
            with kernel.loop(0, rest) as tap:
                inner = coordinates(tap, taps[1:]) if rest > 1 or len(taps) > 1 else []
                inside, place = meets(windows, extents, spots, [first, *inner])
                with kernel.when(inside):
                    value = kernel.load("float32", 0, base + place)
                    now = part.get()
                    part.set(maximum(now, value) if largest else now + value)
            now = total.get()
            total.set(maximum(now, part.get()) if largest else now + part.get())
        kernel.store(1, index, total.get())

    return Emission(tuple(each(out.count, 2, body)))
