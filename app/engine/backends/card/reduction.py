"""reduce on a card: a thread or a group for each result, long sums in two rounds.

Owns: the order of a reduction, which depends on shapes alone. No chain of additions is longer than
the catalog's block of 512 terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.functions import maximum, minimum
from app.engine.backends.card.kernel import Kernel, Shared
from app.engine.backends.card.powers import divide
from app.engine.backends.card.stages import (
    THREADS,
    Stage,
    coordinates,
    each,
    merged,
    place_of,
    row_major,
    stage,
)
from app.engine.backends.card.values import Value
from gpugoblin.catalog.rounding import REDUCE_BLOCK
from gpugoblin.catalog.rules import ints_attribute, text_attribute
from gpugoblin.catalog.spec import DTYPES, Attributes, TensorSpec

__all__ = ["COMBINE", "everybody", "identity", "reduce", "tree"]

SHORT: Final = 32
"""Results of at most so many terms, or side by side, are made by one thread each."""
COLUMNS: Final = 32
"""Results side by side that a group makes together, reading their terms in rows."""
ENOUGH: Final = 2048
"""Groups that keep a large card busy."""
FEW: Final = 256
SEGMENT: Final = 16 * 1024
RADIX: Final = 8
FINAL: Final = 16
"""Values that each thread combines for itself, at most."""

COMBINE: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "sum": lambda left, right: left + right,
    "mean": lambda left, right: left + right,
    "prod": lambda left, right: left * right,
    "max": maximum,
    "min": minimum,
    "any": lambda left, right: left | right,
    "all": lambda left, right: left & right,
}


def identity(function: str, kind: str) -> float | int | bool:
    """What changes nothing when combined."""
    if function in ("sum", "mean"):
        return 0
    if function == "prod":
        return 1
    if function in ("any", "all"):
        return function == "all"
    if kind == "float32":
        return -math.inf if function == "max" else math.inf
    least = -(1 << 8 * DTYPES[kind].itemsize - 1)
    return least if function == "max" else -least - 1


@dataclass(frozen=True, slots=True)
class _Fold:
    """A reduction of `inner` terms for each of `rows` results, from tensor 0 to tensor 1.

    Args:
        kept, folded: extents and steps of the axes that stay and that are reduced.
        divisor: of the result; 0 for none.
    """

    function: str
    kind: str
    kept: tuple[tuple[int, ...], tuple[int, ...]]
    folded: tuple[tuple[int, ...], tuple[int, ...]]
    divisor: int

    @property
    def rows(self) -> int:
        return math.prod(self.kept[0])

    @property
    def inner(self) -> int:
        return math.prod(self.folded[0])

    def term(self, kernel: Kernel, base: Value, number: Value) -> Value:
        place = place_of(coordinates(number, self.folded[0]), self.folded[1])
        return kernel.load(self.kind, 0, base + place)

    def base(self, row: Value) -> Value:
        return place_of(coordinates(row, self.kept[0]), self.kept[1])

    def neutral(self, kernel: Kernel) -> Value:
        return kernel.number(self.kind, identity(self.function, self.kind))

    def chain(
        self, kernel: Kernel, base: Value, start: Value | int, stop: Value | int, step: int
    ) -> Value:
        """The terms from `start` below `stop`, every `step`th, in blocks of 512."""
        combine = COMBINE[self.function]
        total = kernel.variable(self.kind, self.neutral(kernel))
        with kernel.loop(start, stop, step * REDUCE_BLOCK) as first:
            part = kernel.variable(self.kind)
            part.set(self.neutral(kernel))
            end = first + step * REDUCE_BLOCK
            end = kernel.select(end < stop, end, kernel.lift(stop, "uint32"))
            with kernel.loop(first, end, step) as number:
                part.set(combine(part.get(), self.term(kernel, base, number)))
            total.set(combine(total.get(), part.get()))
        return total.get()

    def store(self, kernel: Kernel, row: Value, value: Value) -> None:
        if self.divisor:
            value = divide(value, kernel.number("float32", float(self.divisor)))
        kernel.store(1, row, value)


def reduce(
    attributes: Attributes, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> Emission:
    function, axes = text_attribute(attributes, "function"), ints_attribute(attributes, "axes")
    spec, out = inputs[0], outputs[0]
    inner = math.prod(spec.shape[axis] for axis in axes)
    if out.count == 0:
        return Emission(())
    if inner == 0:
        return _empty(function, out)
    own = row_major(spec.shape)
    parts = []
    for folded in (False, True):
        chosen = [axis for axis in range(spec.rank) if (axis in axes) == folded]
        shape = [spec.shape[axis] for axis in chosen]
        extents, (steps,) = merged(shape, [[own[axis] for axis in chosen]])
        parts.append((extents, steps))
    divisor = inner if function == "mean" else 0
    fold = _Fold(function, spec.dtype, parts[0], parts[1], divisor)
    return _emit(fold)


def _empty(function: str, out: TensorSpec) -> Emission:
    def body(kernel: Kernel, index: Value) -> None:
        if function == "mean":
            value = kernel.pattern("float32", 0x7FC00000)
        else:
            value = kernel.number(out.dtype, identity(function, out.dtype))
        kernel.store(0, index, value)

    return Emission(tuple(each(out.count, 1, body, (1,))))


def _emit(fold: _Fold) -> Emission:
    if fold.inner <= SHORT:
        return Emission(tuple(_by_thread(fold)))
    make = _by_group
    if fold.folded[1][-1] != 1 and fold.kept[1][-1] == 1 and fold.rows >= COLUMNS:
        make = _by_columns
        groups = -(-fold.rows // COLUMNS)
        segments = min(FEW, fold.inner // REDUCE_BLOCK, -(-ENOUGH // groups))
    else:
        segments = min(FEW, fold.inner // SEGMENT) if fold.rows < FEW else 1
    if segments < 2:
        return Emission((make(fold),))
    first = _Fold(fold.function, fold.kind, fold.kept, fold.folded, 0)
    width = DTYPES[fold.kind].itemsize
    second = _Fold(
        fold.function,
        fold.kind,
        ((fold.rows,), (segments,)),
        ((segments,), (1,)),
        fold.divisor,
    )
    stages = (
        make(first, segments, (0, 2)),
        _by_group(second, 1, (2, 1)),
    )
    return Emission(stages, scratch_bytes=width * fold.rows * segments)


def _by_thread(fold: _Fold) -> list[Stage]:
    def body(kernel: Kernel, row: Value) -> None:
        fold.store(kernel, row, fold.chain(kernel, fold.base(row), 0, fold.inner, 1))

    return each(fold.rows, 2, body)


def _by_group(fold: _Fold, segments: int = 1, numbers: tuple[int, int] = (0, 1)) -> Stage:
    """A group for each segment of each row; a tree over its threads at the end."""
    kernel = Kernel(2, THREADS)
    shared = kernel.shared(fold.kind, THREADS)
    number, local = kernel.flat_group(), kernel.local()
    with kernel.when(number < fold.rows * segments):
        row, segment = number // segments, number % segments
        length = -(-fold.inner // segments)
        start = segment * length
        stop = start + length
        stop = kernel.select(stop < fold.inner, stop, kernel.number("uint32", fold.inner))
        value = fold.chain(kernel, fold.base(row), start + local, stop, THREADS)
        value = tree(kernel, shared, value, COMBINE[fold.function])
        with kernel.when(local.same(0)):
            fold.store(kernel, number, value)
    return stage(kernel, fold.rows * segments, numbers)


def _by_columns(fold: _Fold, segments: int = 1, numbers: tuple[int, int] = (0, 1)) -> Stage:
    """A group for a segment of 32 results that lie side by side."""
    kernel = Kernel(2, THREADS)
    shared = kernel.shared(fold.kind, THREADS)
    local = kernel.local()
    groups = -(-fold.rows // COLUMNS)
    lanes = THREADS // COLUMNS
    column, lane = local % COLUMNS, local // COLUMNS
    number = kernel.flat_group()
    with kernel.when(number < groups * segments):
        row = (number % groups) * COLUMNS + column
        segment = number // groups
        length = -(-fold.inner // segments)
        start = segment * length
        stop = start + length
        stop = kernel.select(stop < fold.inner, stop, kernel.number("uint32", fold.inner))
        inside = row < fold.rows
        known = kernel.select(inside, row, kernel.number("uint32", fold.rows - 1))
        shared.set(local, fold.chain(kernel, fold.base(known), start + lane, stop, lanes))
        kernel.barrier()
        with kernel.when(inside & lane.same(0)):
            total = kernel.variable(fold.kind, shared.get(column))
            for other in range(1, lanes):
                value = shared.get(column + other * COLUMNS)
                total.set(COMBINE[fold.function](total.get(), value))
            fold.store(kernel, row * segments + segment, total.get())
    return stage(kernel, groups * segments, numbers)


def tree(
    kernel: Kernel, shared: Shared, value: Value, combine: Callable[[Value, Value], Value]
) -> Value:
    """All values of a group combined, in thread 0."""
    local = kernel.local()
    shared.set(local, value)
    half = kernel.threads // 2
    while half:
        kernel.barrier()
        with kernel.when(local < half):
            shared.set(local, combine(shared.get(local), shared.get(local + half)))
        half //= 2
    return shared.get(local)


def everybody(
    kernel: Kernel, shared: Shared, value: Value, combine: Callable[[Value, Value], Value]
) -> Value:
    """All values of a group combined, known to each thread: eight to one again and again, and what
    is left by each for itself. The order is the same for all. Fewer barriers than `tree`.

    `shared` may be written again after a barrier.
    """
    local, count = kernel.local(), kernel.threads
    shared.set(local, value)
    kernel.barrier()
    while count > FINAL:
        count //= RADIX
        with kernel.when(local < count):
            total = shared.get(local)
            for part in range(1, RADIX):
                total = combine(total, shared.get(local + part * count))
            shared.set(local, total)
        kernel.barrier()
    total = shared.get(0)
    for part in range(1, count):
        total = combine(total, shared.get(part))
    return total
