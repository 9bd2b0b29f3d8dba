"""Operators that compare elements: reduce_arg, topk, searchsorted on a card.

Owns: their kernels. NaN is above every number; among equals the lower index is first.

topk gives every element its rank by counting who comes before it: n^2 comparisons a row, side by
side; rows of a hundred thousand elements are slow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.powers import is_nan
from app.engine.backends.card.stages import THREADS, coordinates, each, stage
from app.engine.backends.card.values import Value
from gpugoblin.catalog.rules import bool_attribute, int_attribute, text_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec

__all__ = ["reduce_arg", "searchsorted", "topk"]

Specs = Sequence[TensorSpec]


def _whole(value: Value) -> Value:
    """A bool as a number, so that it has an order."""
    return value.kernel.select(value, 1, 0, "int32") if value.kind == "bool" else value


def _above(left: Value, right: Value) -> Value:
    left, right = _whole(left), _whole(right)
    if left.kind != "float32":
        return left > right
    return (left > right) | (is_nan(left) & ~is_nan(right))


def _first_of(left: Value, right: Value, largest: bool, nan_first: bool) -> Value:
    """Does `left` come before `right` by value alone?"""
    if largest:
        return _above(left, right)
    if nan_first and left.kind == "float32":
        return (left < right) | (is_nan(left) & ~is_nan(right))
    return _above(right, left)


def _around(spec: TensorSpec, axis: int) -> tuple[int, int, int]:
    return math.prod(spec.shape[:axis]), spec.shape[axis], math.prod(spec.shape[axis + 1 :])


def reduce_arg(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    """A group for each result: each thread its elements, then a tree of pairs."""
    spec, out = inputs[0], outputs[0]
    _, extent, after = _around(spec, int_attribute(attributes, "axis"))
    largest = text_attribute(attributes, "function") == "argmax"
    if out.count == 0:
        return Emission(())
    kernel = Kernel(2, THREADS)
    values, places = kernel.shared(spec.dtype, THREADS), kernel.shared("uint32", THREADS)
    row, local = kernel.flat_group(), kernel.local()

    def better(value: Value, place: Value, other: Value, there: Value) -> Value:
        worse = _first_of(other, value, largest, True)
        return _first_of(value, other, largest, True) | (~worse & (place < there))

    with kernel.when(row < out.count):
        base = (row // after) * (extent * after) + row % after
        start = kernel.select(local < extent, local, kernel.number("uint32", extent - 1))
        best = kernel.variable(spec.dtype, kernel.load(spec.dtype, 0, base + start * after))
        where = kernel.variable("uint32", start)
        with kernel.loop(start + THREADS, extent, THREADS) as place:
            value = kernel.load(spec.dtype, 0, base + place * after)
            with kernel.when(better(value, place, best.get(), where.get())):
                best.set(value)
                where.set(place)
        values.set(local, best.get())
        places.set(local, where.get())
        half = THREADS // 2
        while half:
            kernel.barrier()
            with kernel.when(local < half):
                other = (values.get(local + half), places.get(local + half))
                with kernel.when(better(*other, values.get(local), places.get(local))):
                    values.set(local, other[0])
                    places.set(local, other[1])
            half //= 2
        with kernel.when(local.same(0)):
            kernel.store(1, row, places.get(0).as_("int64"))
    return Emission((stage(kernel, out.count),))


def topk(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    spec, count = inputs[0], int_attribute(attributes, "k")
    _, extent, after = _around(spec, int_attribute(attributes, "axis"))
    largest = bool_attribute(attributes, "largest")

    def body(kernel: Kernel, index: Value) -> None:
        before, own, behind = coordinates(index, (2**31, extent, after))
        base = before * (extent * after) + behind
        value = kernel.load(spec.dtype, 0, index)
        rank = kernel.variable("uint32", 0)
        with kernel.loop(0, extent) as place:
            other = kernel.load(spec.dtype, 0, base + place * after)
            behind_it = _first_of(value, other, largest, False)
            first = _first_of(other, value, largest, False)
            ahead = first | (~behind_it & (place < own))
            rank.set(kernel.select(ahead, rank.get() + 1, rank.get()))
        with kernel.when(rank.get() < count):
            target = before * (count * after) + rank.get() * after + behind
            kernel.store(1, target, value)
            kernel.store(2, target, own.as_("int64"))

    return Emission(tuple(each(spec.count, 3, body, writes=2)))


def searchsorted(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    """By halving where the line is in order, else by counting."""
    ranks, out = inputs[0], outputs[0]
    extent, right = ranks.shape[-1], bool_attribute(attributes, "right")
    row_length = inputs[1].shape[-1] if ranks.rank > 1 else 0

    def mark(kernel: Kernel, index: Value) -> None:
        kernel.store(0, index, kernel.number("uint32", 0))

    def inspect(kernel: Kernel, index: Value) -> None:
        place = index % extent
        with kernel.when(place.differs(extent - 1)):
            now, after = (kernel.load(ranks.dtype, 0, index + step) for step in (0, 1))
            with kernel.when(_above(now, after)):
                kernel.store(1, 0, kernel.number("uint32", 1))

    def body(kernel: Kernel, index: Value) -> None:
        value = kernel.load(ranks.dtype, 1, index)
        base = (index // row_length) * extent if row_length else kernel.number("uint32", 0)

        def counts(place: Value) -> Value:
            """Does this element count for the value?"""
            other = kernel.load(ranks.dtype, 0, base + place)
            return ~_above(other, value) if right else _above(value, other)

        found = kernel.variable("uint32", 0)
        mixed = kernel.load("uint32", 3, 0).differs(0)
        with kernel.when(mixed), kernel.loop(0, extent) as place:
            found.set(kernel.select(counts(place), found.get() + 1, found.get()))
        with kernel.when(~mixed):
            room = kernel.variable("uint32", extent)
            with kernel.loop(0, extent.bit_length()):
                half = room.get() >> 1
                with kernel.when(room.get() > 0):
                    inside = counts(found.get() + half)
                    found.set(kernel.select(inside, found.get() + half + 1, found.get()))
                    rest = room.get() - half - 1
                    room.set(kernel.select(inside, rest, half))
        kernel.store(2, index, found.get().as_(out.dtype))

    stages = [
        *each(1 if out.count else 0, 1, mark, (3,)),
        *each(ranks.count if out.count else 0, 2, inspect, (0, 3)),
        *each(out.count, 4, body, (0, 1, 2, 3), writes=2),
    ]
    return Emission(tuple(stages), scratch_bytes=4)
