"""What a compiled operator is on a card: dispatches over numbered tensors.

Owns: the shape of a stage, the spread of groups, and the arithmetic of places in strided tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.engine.backends.card.kernel import Kernel, Value

__all__ = [
    *("MAX_ELEMENTS", "THREADS", "Stage", "coordinates", "each", "grid", "merged", "place_of"),
    *("placed", "row_major", "stage"),
]

THREADS: Final = 256
MAX_ELEMENTS: Final = 2**31 - 1
"""Of one tensor: places of elements are 32-bit numbers, addresses 64-bit."""

_SPREAD: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Stage:
    """One dispatch.

    Args:
        words: the SPIR-V module.
        groups: of the dispatch, in x, y, z.
        tensors: whose addresses it gets: first the operator's inputs, then its outputs, then its
            scratch, then the slot for errors, by number.
        writes: how many of the last of `tensors` are written.
        shifts: bytes behind its beginning at which each of `tensors` is met; empty for none.
        call: what a library of the card computes in the place of a kernel.
    """

    words: bytes
    groups: tuple[int, int, int]
    tensors: tuple[int, ...]
    writes: int = 1
    shifts: tuple[int, ...] = ()
    call: object | None = None


def placed(stage: Stage, numbers: dict[int, tuple[int, int]]) -> Stage:
    """The stage on other tensors: for each number that it has another, and a shift in bytes."""
    old = stage.shifts or (0,) * len(stage.tensors)
    found = [numbers[number] for number in stage.tensors]
    return replace(
        stage,
        tensors=tuple(number for number, _ in found),
        shifts=tuple(shift + before for (_, shift), before in zip(found, old, strict=True)),
    )


def grid(groups: int) -> tuple[int, int, int]:
    """Groups spread over x and y as `Kernel.flat_group` counts them; some may be too many."""
    if groups <= _SPREAD:
        return groups, 1, 1
    return _SPREAD, -(-groups // _SPREAD), 1


def stage(
    kernel: Kernel, groups: int, tensors: Sequence[int] | None = None, writes: int = 1
) -> Stage:
    numbers = tuple(range(kernel.addresses)) if tensors is None else tuple(tensors)
    return Stage(kernel.words(), grid(groups), numbers, writes)


def each(
    count: int,
    tensors: int,
    body: Callable[[Kernel, Value], None],
    numbers: Sequence[int] | None = None,
    writes: int = 1,
) -> list[Stage]:
    """A thread for each of `count` elements; nothing where there are none."""
    if count == 0:
        return []
    kernel = Kernel(tensors, THREADS)
    index = kernel.flat_group() * THREADS + kernel.local()
    with kernel.when(index < count):
        body(kernel, index)
    return [stage(kernel, -(-count // THREADS), numbers, writes)]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a tensor in C order."""
    steps: list[int] = []
    step = 1
    for extent in reversed(shape):
        steps.append(step)
        step *= max(1, extent)
    return tuple(reversed(steps))


def coordinates(index: Value, shape: Sequence[int]) -> list[Value]:
    """The place of element `index` of a tensor in C order, axis by axis."""
    found = []
    for axis, step in enumerate(row_major(shape)):
        place = index // step
        found.append(place % shape[axis] if axis else place)
    return found


def place_of(places: Sequence[Value], steps: Sequence[int], start: int = 0) -> Value:
    """start + sum of places times steps; a step may be negative."""
    kernel = places[0].kernel if places else None
    if kernel is None:
        raise ValueError("a place needs an axis")
    total: Value | None = None
    for place, step in zip(places, steps, strict=True):
        if step:
            share = place * (step % 2**32)
            total = share if total is None else total + share
    if total is None:
        return kernel.number("uint32", start)
    return total + start % 2**32


def merged(
    shape: Sequence[int], operands: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The same walk over fewer axes: those of extent 1 left out, neighbors joined where every
    operand's steps allow it. At least one axis is left."""
    axes = [axis for axis, extent in enumerate(shape) if extent != 1]
    extents: list[int] = []
    steps: list[list[int]] = [[] for _ in operands]
    for axis in axes:
        joins = bool(extents) and all(
            found[-1] == operand[axis] * shape[axis]
            for found, operand in zip(steps, operands, strict=True)
        )
        if joins:
            extents[-1] *= shape[axis]
        else:
            extents.append(shape[axis])
        for found, operand in zip(steps, operands, strict=True):
            if joins:
                found[-1] = operand[axis]
            else:
                found.append(operand[axis])
    if not extents:
        return (1,), [(0,) for _ in operands]
    return tuple(extents), [tuple(found) for found in steps]
