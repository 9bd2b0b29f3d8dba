"""Adafactor. Owns: its step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gpugoblin.catalog.building import call, number, reduced
from gpugoblin.catalog.spec import Builder, TensorSpec
from gpugoblin.optim.schedules import Schedule, require, schedule_of
from gpugoblin.optim.step import Optimizer, Slot
from gpugoblin.optim.terms import Term, formula

__all__ = ["Adafactor"]


@dataclass(frozen=True, slots=True)
class Adafactor(Optimizer):
    """N. Shazeer and M. Stern, *Adafactor: adaptive learning rates with sublinear memory cost*
    (ICML 2018), algorithms 4 and 5: mean squares of gradients kept by rows and columns.

    Args:
        rate: the largest relative step, a number or a schedule; a step is at most 1 / sqrt(number).
        decay: the share of the new in the mean squares is the step's number to this power.
        epsilon: mean squares are no less than its square.
        least: a parameter's root mean square counts as no less.
        clip: the root mean square of an update is at most this.
        weight_decay: a step also takes rate times this of the parameter away.

    Raises:
        GraphError: attribute_invalid.
    """

    elementwise: ClassVar[bool] = False

    rate: float | Schedule = 1e-2
    decay: float = -0.8
    epsilon: float = 2.0**-23
    least: float = 1e-3
    clip: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        schedule_of(self.rate)
        require(self, "decay", self.decay <= 0, "0 or less is wanted")
        require(self, "epsilon", self.epsilon > 0, "more than 0 is wanted")
        require(self, "least", self.least >= 0, "0 or more is wanted")
        require(self, "clip", self.clip >= 1, "1 or more is wanted")
        require(self, "weight_decay", self.weight_decay >= 0, "0 or more is wanted")

    def slots(self, spec: TensorSpec) -> tuple[Slot, ...]:
        if spec.rank < 2:
            return (Slot("square", spec),)
        *batch, rows, columns = spec.shape
        return (
            Slot("rows", TensorSpec(spec.dtype, (*batch, rows, 1))),
            Slot("columns", TensorSpec(spec.dtype, (*batch, 1, columns))),
        )

    def shared(self, builder: Builder, step: int, since: int | None = None) -> tuple[int, ...]:
        """The rate, the relative step, and the share of the new in the means."""
        rate = formula(builder, [step], schedule_of(self.rate).write)
        since = step if since is None else since

        def relative(step: Term, rate: Term) -> Term:
            return rate.call("min", (step + 1.0).call("rsqrt"))

        def new(step: Term) -> Term:
            return (step + 1.0).call("pow", self.decay)

        return rate, formula(builder, [step, rate], relative), formula(builder, [since], new)

    def update(
        self,
        builder: Builder,
        shared: Sequence[int],
        parameter: int,
        gradient: int,
        state: Sequence[int],
    ) -> tuple[int, tuple[int, ...]]:
        rate, relative, new = shared
        if builder.spec(parameter).count == 0:
            return parameter, tuple(state)
        kept = self._means(builder, gradient, state, new)
        way = self._way(builder, gradient, kept)
        size = _root_mean_square(builder, parameter)
        length = _root_mean_square(builder, way)

        def stride(size: Term, length: Term, relative: Term) -> Term:
            return size.call("max", self.least) * relative / (length / self.clip).call("max", 1.0)

        alpha = formula(builder, [size, length, relative], stride)
        if not self.weight_decay:
            plain = formula(builder, [parameter, way, alpha], lambda p, u, a: p - a * u)
            return plain, tuple(kept)

        def pulled(p: Term, u: Term, a: Term, rate: Term) -> Term:
            return p - p * (rate * self.weight_decay) - a * u

        return formula(builder, [parameter, way, alpha, rate], pulled), tuple(kept)

    def _means(self, builder: Builder, gradient: int, state: Sequence[int], new: int) -> list[int]:
        squares = call(builder, "mul", gradient, gradient)
        rank = builder.spec(gradient).rank

        def mixed(old: Term, fresh: Term, share: Term) -> Term:
            return old + (fresh - old) * share

        if rank < 2:
            return [formula(builder, [state[0], squares, new], mixed)]
        fresh = [reduced(builder, "mean", squares, (rank - 1 - axis,)) for axis in (0, 1)]
        return [
            formula(builder, [old, mean, new], mixed)
            for old, mean in zip(state, fresh, strict=True)
        ]

    def _way(self, builder: Builder, gradient: int, kept: Sequence[int]) -> int:
        """The gradient over the root of its mean square."""
        least = self.epsilon * self.epsilon

        def plain(g: Term, square: Term) -> Term:
            return g * square.call("max", least).call("rsqrt")

        if len(kept) == 1:
            return formula(builder, [gradient, kept[0]], plain)
        rank = builder.spec(gradient).rank
        middle = reduced(builder, "mean", kept[0], (rank - 2,))

        def crossed(g: Term, rows: Term, columns: Term, middle: Term) -> Term:
            square = rows / middle.call("max", self.epsilon) * columns
            return g * square.call("max", least).call("rsqrt")

        return formula(builder, [gradient, *kept, middle], crossed)


def _root_mean_square(builder: Builder, value: int) -> int:
    spec = builder.spec(value)
    squares = call(builder, "mul", value, value)
    if not spec.rank:
        return call(builder, "sqrt", squares)
    total = reduced(builder, "sum", squares, range(spec.rank), keepdims=False)
    scaled = call(builder, "mul", total, number(builder, 1 / math.prod(spec.shape), spec.dtype))
    return call(builder, "sqrt", scaled)
