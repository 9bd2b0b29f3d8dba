"""Operators that only move elements, or make them from their place: one thread an element.

Owns: cast, permute, slice, flip, broadcast, concat, pad, update_slice, iota on a card. Moves keep
bits: they carry unsigned integers of the same width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.functions import cast_value
from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.narrow import HALVES, RAW, encoded_bits
from app.engine.backends.card.stages import (
    Stage,
    coordinates,
    each,
    merged,
    place_of,
    row_major,
)
from app.engine.backends.card.turning import turn
from app.engine.backends.card.values import Value
from gpugoblin.catalog.rules import int_attribute, ints_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec

__all__ = [
    *("broadcast", "cast", "concat", "copy_stage", "flip", "iota", "pad", "permute"),
    *("slice_", "update_slice"),
]

Specs = Sequence[TensorSpec]
PACKED: Final = 8
"""Halves in a vector of 16 bytes."""


def copy_stage(
    kind: str,
    shape: Sequence[int],
    source: tuple[Sequence[int], int],
    target: tuple[Sequence[int], int],
    numbers: tuple[int, int] = (0, 1),
) -> list[Stage]:
    """Copies a box of `shape` between two tensors.

    Args:
        source, target: steps in elements along each axis, and where the box begins.
        numbers: of the two tensors among those of the operator.
    """
    count = 1
    for extent in shape:
        count *= extent
    extents, (reading, writing) = merged(shape, [source[0], target[0]])

    def body(kernel: Kernel, index: Value) -> None:
        places = coordinates(index, extents)
        value = kernel.load(RAW[kind], 0, place_of(places, reading, source[1]))
        kernel.store(1, place_of(places, writing, target[1]), value)

    return each(count, 2, body, numbers)


def _whole(spec: TensorSpec) -> tuple[Sequence[int], int]:
    return row_major(spec.shape), 0


def _viewed(inputs: Specs, outputs: Specs, steps: Sequence[int], start: int = 0) -> Emission:
    """The output read from the input with these steps."""
    out = outputs[0]
    return Emission(tuple(copy_stage(out.dtype, out.shape, (steps, start), _whole(out))))


def permute(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    own, out = row_major(inputs[0].shape), outputs[0]
    steps = [own[axis] for axis in ints_attribute(attributes, "axes")]
    extents, (reading, writing) = merged(out.shape, [steps, row_major(out.shape)])
    turned = turn(RAW[out.dtype], extents, reading, writing)
    return Emission((turned,)) if turned else _viewed(inputs, outputs, steps)


def slice_(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    names = ("start", "stop", "step")
    given = (ints_attribute(attributes, name) for name in names)
    steps, first = [], 0
    for start, stop, step, extent, own in zip(
        *given, inputs[0].shape, row_major(inputs[0].shape), strict=True
    ):
        begin, _, stride = slice(start, stop, step).indices(extent)
        first += begin * own
        steps.append(stride * own)
    return _viewed(inputs, outputs, steps, first)


def flip(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    axes = ints_attribute(attributes, "axes")
    steps, first = [], 0
    for axis, (extent, own) in enumerate(
        zip(inputs[0].shape, row_major(inputs[0].shape), strict=True)
    ):
        turned = axis in axes
        first += (extent - 1) * own if turned else 0
        steps.append(-own if turned else own)
    return _viewed(inputs, outputs, steps, first)


def broadcast(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    shape = inputs[0].shape
    missing = len(outputs[0].shape) - len(shape)
    own = row_major(shape)
    steps = [0 if extent == 1 else step for extent, step in zip(shape, own, strict=True)]
    return _viewed(inputs, outputs, [0] * missing + steps)


def concat(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    axis, out = int_attribute(attributes, "axis"), outputs[0]
    steps = row_major(out.shape)
    stages: list[Stage] = []
    start = 0
    for number, spec in enumerate(inputs):
        target = (steps, start * steps[axis])
        stages += copy_stage(out.dtype, spec.shape, _whole(spec), target, (number, len(inputs)))
        start += spec.shape[axis]
    return Emission(tuple(stages))


def _placed(
    out: TensorSpec,
    data: TensorSpec,
    start: Sequence[int],
    step: Sequence[int],
    numbers: tuple[int, int, int],
    elsewhere: bool,
) -> Emission:
    """`data` (tensor 0) placed from `start` on with steps; else tensor 1, at the element's own
    place or, unless `elsewhere`, its only element."""

    def body(kernel: Kernel, index: Value) -> None:
        raw = RAW[out.dtype]
        places, inside = [], kernel.number("bool", data.count > 0)
        for axis, place in enumerate(coordinates(index, out.shape)):
            moved = place - start[axis] % 2**32
            inside = inside & ((moved // step[axis]) < data.shape[axis])
            inside = inside & (moved % step[axis]).same(0)
            places.append(moved // step[axis])
        value = kernel.variable(raw, kernel.load(raw, 1, index if elsewhere else 0))
        with kernel.when(inside):
            at = place_of(places, row_major(data.shape)) if places else index
            value.set(kernel.load(raw, 0, at))
        kernel.store(2, index, value.get())

    return Emission(tuple(each(out.count, 3, body, numbers)))


def pad(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    low = ints_attribute(attributes, "low")
    step = [gap + 1 for gap in ints_attribute(attributes, "between")]
    return _placed(outputs[0], inputs[0], low, step, (0, 1, 2), False)


def update_slice(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    start, step = ints_attribute(attributes, "start"), ints_attribute(attributes, "step")
    return _placed(outputs[0], inputs[1], start, step, (1, 0, 2), True)


def iota(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    out = outputs[0]

    def body(kernel: Kernel, index: Value) -> None:
        kernel.store(0, index, index.as_(out.dtype))

    return Emission(tuple(each(out.count, 1, body)))


def _packed(count: int, target: str) -> list[Stage]:
    """float32 to 16 bits, eight elements a thread, in vectors."""

    def body(kernel: Kernel, index: Value) -> None:
        first = index * PACKED
        values: list[Value] = []
        for part in range(0, PACKED, 4):
            at = kernel.place(0, first + part, 4)
            values += kernel.split(kernel.load_at("float32x4", at))
        words = [encoded_bits(cast_value(value, "float32", target), target) for value in values]
        pairs = [
            (low | (high << 16)).bits("int32")
            for low, high in zip(words[::2], words[1::2], strict=True)
        ]
        kernel.store_at(kernel.place(1, first, 2), kernel.join(pairs))

    return each(count // PACKED, 2, body)


def cast(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    source, target = inputs[0].dtype, outputs[0].dtype
    if source == "float32" and target in HALVES and outputs[0].count % PACKED == 0:
        return Emission(tuple(_packed(outputs[0].count, target)))

    def body(kernel: Kernel, index: Value) -> None:
        value = kernel.element(source, 0, index)
        kernel.store(1, index, cast_value(value, source, target), target)

    return Emission(tuple(each(outputs[0].count, 2, body)))
