"""Convolution as a product: windows laid out as a matrix, some examples at a time.

Owns: the layout of that matrix and when it is worth its memory. Must not: multiply: the card's own
product does, over weights [outputs, terms] and columns [terms, places].

Where an example has few places, as in gradients of weights, those of all examples lie side by side,
and the result is put in order afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.moving import copy_stage
from app.engine.backends.card.product import Problem
from app.engine.backends.card.sliding import meets
from app.engine.backends.card.stages import Stage, coordinates, each, placed, row_major
from app.engine.backends.card.values import Value
from gpugoblin.catalog.ops.convolution import conv_windows
from gpugoblin.catalog.rules import int_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec
from gpugoblin.catalog.windows import Window

__all__ = ["Multiply", "unrolled"]

Multiply = Callable[[Problem], Emission]
"""A card's product of tensor 0 and tensor 1 into tensor 2; its scratch is tensor 3."""

LIMIT_BYTES: Final = 512 * 1024 * 1024
"""Of the matrix, where one example does not need more."""
FEW_PLACES: Final = 64
LEAST_WORK: Final = 16
"""Outputs and terms below which a thread for each result does as well."""
MOST_STAGES: Final = 64

_DATA, _WEIGHTS, _OUT, _SCRATCH = range(4)


@dataclass(frozen=True, slots=True)
class _Plan:
    """One convolution without groups.

    Args:
        data, out: shapes. windows: one an axis. taps: of the kernel.
    """

    data: tuple[int, ...]
    out: tuple[int, ...]
    windows: tuple[Window, ...]
    taps: tuple[int, ...]

    @property
    def spots(self) -> int:
        return math.prod(self.out[2:])

    @property
    def terms(self) -> int:
        return self.data[1] * math.prod(self.taps)

    @property
    def plain(self) -> bool:
        """Is the data itself the matrix?"""
        still = Window(1, 1, 1, 0, 0)
        return all(replace(window, dilation=1) == still for window in self.windows)

    def columns(self, examples: int, merged: bool) -> list[Stage]:
        """The matrix of so many examples, from tensor 0 to tensor 1."""
        extents, plane = self.data[2:], math.prod(self.data[2:])
        count = math.prod(self.taps)
        shape = (self.terms, examples, self.spots) if merged else (examples, self.terms, self.spots)

        def body(kernel: Kernel, index: Value) -> None:
            first, second, spot = coordinates(index, shape)
            term, example = (first, second) if merged else (second, first)
            spots = coordinates(spot, self.out[2:])
            taps = coordinates(term % count, self.taps)
            inside, place = meets(self.windows, extents, spots, taps)
            value = kernel.variable("float32", 0.0)
            with kernel.when(inside):
                base = (example * self.data[1] + term // count) * plane
                value.set(kernel.load("float32", 0, base + place))
            kernel.store(1, index, value.get())

        return each(math.prod(shape), 2, body, (_DATA, _SCRATCH))


def unrolled(
    attributes: Attributes,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    multiply: Multiply,
) -> Emission | None:
    """The stages; None where another way is better."""
    data, weights = inputs
    out = outputs[0]
    if out.dtype != "float32" or int_attribute(attributes, "groups") != 1:
        return None
    if not out.count or not data.count:
        return None
    plan = _Plan(data.shape, out.shape, conv_windows(weights.shape, attributes), weights.shape[2:])
    if out.shape[1] < LEAST_WORK or plan.terms < LEAST_WORK:
        return None
    if plan.plain:
        problem = _problem(plan, out.shape[0])
        return _moved(multiply(problem), {0: _WEIGHTS, 1: _DATA, 2: _OUT, 3: _SCRATCH}, {})
    merged = plan.spots < FEW_PLACES and data.shape[0] > 1
    one = 4 * plan.terms * plan.spots
    examples = max(1, min(data.shape[0], LIMIT_BYTES // one))
    if (merged and examples < data.shape[0]) or -(-data.shape[0] // examples) > MOST_STAGES:
        return None
    return _merged(plan, multiply) if merged else _in_parts(plan, examples, multiply)


def _problem(plan: _Plan, examples: int) -> Problem:
    return Problem(
        *("float32", examples, plan.out[1], plan.spots, plan.terms, (False, False)),
        shared_left=True,
    )


def _in_parts(plan: _Plan, examples: int, multiply: Multiply) -> Emission:
    stages: list[Stage] = []
    most = 0
    size = 4 * plan.terms * plan.spots * examples
    read, written = 4 * math.prod(plan.data[1:]), 4 * math.prod(plan.out[1:])
    for first in range(0, plan.data[0], examples):
        count = min(examples, plan.data[0] - first)
        product = multiply(_problem(plan, count))
        most = max(most, product.scratch_bytes)
        stages += [_shifted(stage, {_DATA: first * read}) for stage in plan.columns(count, False)]
        moves = {_OUT: first * written, _SCRATCH: 0}
        stages += _renumbered(product, size, moves)
    return Emission(tuple(stages), size + most)


def _merged(plan: _Plan, multiply: Multiply) -> Emission:
    examples, outputs, spots = plan.data[0], plan.out[1], plan.spots
    places = examples * spots
    matrix, result = 4 * plan.terms * places, 4 * outputs * places
    problem = Problem("float32", 1, outputs, places, plan.terms, (False, False))
    product = multiply(problem)
    stages = plan.columns(examples, True)
    for stage in product.stages:
        numbers = {0: (_WEIGHTS, 0), 1: (_SCRATCH, 0), 2: (_SCRATCH, matrix)}
        numbers[3] = (_SCRATCH, matrix + result)
        stages.append(placed(stage, numbers))
    shape = (examples, outputs, spots)
    turn = copy_stage(
        "float32", shape, ((spots, places, 1), 0), (row_major(shape), 0), (_SCRATCH, _OUT)
    )
    stages += [_shifted(stage, {_SCRATCH: matrix}) for stage in turn]
    return Emission(tuple(stages), matrix + result + product.scratch_bytes)


def _renumbered(product: Emission, own: int, moves: dict[int, int]) -> list[Stage]:
    """A product's stages, whose operands are weights and columns, and whose scratch lies behind."""
    numbers = {0: (_WEIGHTS, 0), 1: (_SCRATCH, 0), 2: (_OUT, moves[_OUT]), 3: (_SCRATCH, own)}
    return [placed(stage, numbers) for stage in product.stages]


def _shifted(stage: Stage, shifts: dict[int, int]) -> Stage:
    return replace(stage, shifts=tuple(shifts.get(number, 0) for number in stage.tensors))


def _moved(product: Emission, numbers: dict[int, int], shifts: dict[int, int]) -> Emission:
    stages = [
        placed(stage, {old: (new, shifts.get(new, 0)) for old, new in numbers.items()})
        for stage in product.stages
    ]
    return Emission(tuple(stages), product.scratch_bytes)
