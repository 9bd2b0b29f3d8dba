"""Lion. Owns: its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpugoblin.catalog.spec import Builder, TensorSpec
from gpugoblin.optim.schedules import Schedule, require, schedule_of
from gpugoblin.optim.step import Optimizer, Slot
from gpugoblin.optim.terms import Term, formula

__all__ = ["Lion"]


@dataclass(frozen=True, slots=True)
class Lion(Optimizer):
    """X. Chen and others, *Symbolic discovery of optimization algorithms* (NeurIPS 2023),
    algorithm 2: steps of one size along the sign of a momentum.

    Args:
        rate: a number, or a schedule.
        beta1: share of the momentum in the direction; beta2: of the past in the momentum.
        weight_decay: a step also takes rate times this of the parameter away.

    Raises:
        GraphError: attribute_invalid.
    """

    rate: float | Schedule = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        schedule_of(self.rate)
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            require(self, name, 0 <= value < 1, "0 or more and less than 1 is wanted")
        require(self, "weight_decay", self.weight_decay >= 0, "0 or more is wanted")

    def slots(self, spec: TensorSpec) -> tuple[Slot, ...]:
        return (Slot("mean", spec),)

    def shared(self, builder: Builder, step: int, since: int | None = None) -> tuple[int, ...]:
        return (formula(builder, [step], schedule_of(self.rate).write),)

    def update(
        self,
        builder: Builder,
        shared: Sequence[int],
        parameter: int,
        gradient: int,
        state: Sequence[int],
    ) -> tuple[int, tuple[int, ...]]:
        def moved(p: Term, g: Term, m: Term, rate: Term) -> Term:
            way = (m * self.beta1 + g * (1 - self.beta1)).call("sign")
            return p - rate * (way + p * self.weight_decay)

        def gathered(g: Term, m: Term) -> Term:
            return m * self.beta2 + g * (1 - self.beta2)

        found = formula(builder, [parameter, gradient, state[0], shared[0]], moved)
        return found, (formula(builder, [gradient, state[0]], gathered),)
