"""gather and scatter on a card, with a check of every index before.

Owns: their kernels. Updates are applied in their order: a thread owns a column of the result and
meets them one after the other, so sums have one order and the last of equal indices stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.functions import maximum, minimum
from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.moving import copy_stage
from app.engine.backends.card.narrow import RAW
from app.engine.backends.card.stages import Stage, coordinates, each, row_major
from app.engine.backends.card.values import Value
from gpugoblin.catalog.rules import int_attribute, text_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec

__all__ = ["gather", "scatter"]

Specs = Sequence[TensorSpec]


def _check(indices: TensorSpec, extent: int, number: int, error: int) -> list[Stage]:
    """Writes a wrong index and 1 to the error slot."""

    def body(kernel: Kernel, index: Value) -> None:
        value = kernel.load(indices.dtype, 0, index)
        with kernel.when((value < 0) | (value >= extent)):
            kernel.store(1, 0, value.as_("int64"))
            kernel.store(1, 1, kernel.number("int64", 1))

    return each(indices.count, 2, body, (number, error))


def _safe(kernel: Kernel, indices: TensorSpec, place: Value, extent: int) -> Value:
    """An index within the extent; a wrong one was reported, and must not lead astray."""
    value = kernel.load(indices.dtype, 1, place)
    wrong = (value < 0) | (value >= extent)
    return kernel.select(wrong, 0, value).as_("uint32")


def gather(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    data, indices = inputs
    axis = int_attribute(attributes, "axis")
    extent, after = data.shape[axis], math.prod(data.shape[axis + 1 :])

    def body(kernel: Kernel, index: Value) -> None:
        raw = RAW[data.dtype]
        before, place, behind = coordinates(index, (2**31, indices.count, after))
        found = _safe(kernel, indices, place, extent)
        value = kernel.load(raw, 0, (before * extent + found) * after + behind)
        kernel.store(2, index, value)

    count = outputs[0].count if data.count else 0
    stages = [*_check(indices, extent, 1, 4), *each(count, 3, body, (0, 1, 2))]
    return Emission(tuple(stages), checks=True)


def scatter(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    data, indices, _ = inputs
    axis, function = int_attribute(attributes, "axis"), text_attribute(attributes, "function")
    extent, after = data.shape[axis], math.prod(data.shape[axis + 1 :])
    columns = math.prod(data.shape[:axis]) * after
    kind = RAW[data.dtype] if function == "set" else data.dtype

    def body(kernel: Kernel, index: Value) -> None:
        before, behind = coordinates(index, (2**31, after))
        with kernel.loop(0, indices.count) as place:
            found = _safe(kernel, indices, place, extent)
            target = (before * extent + found) * after + behind
            value = kernel.load(kind, 0, (before * indices.count + place) * after + behind)
            if function != "set":
                value = _combined(function, kernel.load(kind, 2, target), value)
            kernel.store(2, target, value)

    own = (row_major(data.shape), 0)
    work = columns if indices.count and extent else 0
    stages = [
        *_check(indices, extent, 1, 5),
        *copy_stage(data.dtype, data.shape, own, own, (0, 3)),
        *each(work, 3, body, (2, 1, 3)),
    ]
    return Emission(tuple(stages), checks=True)


def _combined(function: str, left: Value, right: Value) -> Value:
    if function == "add":
        return left + right
    return minimum(left, right) if function == "min" else maximum(left, right)
