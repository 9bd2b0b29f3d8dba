"""Stochastic gradient descent. Owns: its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpugoblin.catalog.spec import Builder, TensorSpec
from gpugoblin.optim.schedules import Schedule, require, schedule_of
from gpugoblin.optim.step import Optimizer, Slot
from gpugoblin.optim.terms import Term, formula, where

__all__ = ["SGD"]


@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """Descent along the gradient, or along a momentum m = momentum m + (1 - dampening) g, which
    begins with the first gradient: I. Sutskever, J. Martens, G. Dahl and G. Hinton, *On the
    importance of initialization and momentum in deep learning* (ICML 2013), as PyTorch has it.

    Args:
        rate: a number, or a schedule.
        nesterov: descend along g + momentum m.
        weight_decay: so many times the parameter is added to its gradient.

    Raises:
        GraphError: attribute_invalid.
    """

    rate: float | Schedule
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        schedule_of(self.rate)
        require(self, "momentum", 0 <= self.momentum < 1, "0 or more and less than 1 is wanted")
        require(self, "dampening", 0 <= self.dampening <= 1, "from 0 to 1 is wanted")
        require(self, "weight_decay", self.weight_decay >= 0, "0 or more is wanted")
        plain = not self.nesterov or (self.momentum > 0 and self.dampening == 0)
        require(self, "nesterov", plain, "it needs a momentum, and no dampening")

    def slots(self, spec: TensorSpec) -> tuple[Slot, ...]:
        return (Slot("momentum", spec),) if self.momentum else ()

    def shared(self, builder: Builder, step: int, since: int | None = None) -> tuple[int, ...]:
        rate = formula(builder, [step], schedule_of(self.rate).write)
        return (rate, step if since is None else since) if self.momentum else (rate,)

    def update(
        self,
        builder: Builder,
        shared: Sequence[int],
        parameter: int,
        gradient: int,
        state: Sequence[int],
    ) -> tuple[int, tuple[int, ...]]:
        rate = shared[0]
        if not state:

            def plain(p: Term, g: Term, alpha: Term) -> Term:
                return p - alpha * self._decayed(p, g)

            return formula(builder, [parameter, gradient, rate], plain), ()

        def gathered(p: Term, g: Term, m: Term, step: Term) -> Term:
            g = self._decayed(p, g)
            return where(step < 1.0, g, m * self.momentum + g * (1 - self.dampening))

        if self.weight_decay:
            operands = [parameter, gradient, state[0], shared[1]]
            momentum = formula(builder, operands, gathered)
        else:
            momentum = formula(
                builder, [gradient, state[0], shared[1]], lambda g, m, step: gathered(g, g, m, step)
            )

        def moved(p: Term, m: Term, alpha: Term) -> Term:
            return p - alpha * m

        def ahead(p: Term, g: Term, m: Term, alpha: Term) -> Term:
            return p - alpha * (self._decayed(p, g) + m * self.momentum)

        if self.nesterov:
            found = formula(builder, [parameter, gradient, momentum, rate], ahead)
        else:
            found = formula(builder, [parameter, momentum, rate], moved)
        return found, (momentum,)

    def _decayed(self, p: Term, g: Term) -> Term:
        return g + p * self.weight_decay if self.weight_decay else g
