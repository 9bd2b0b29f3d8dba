"""Adam and AdamW. Owns: their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpugoblin.catalog.building import call
from gpugoblin.catalog.spec import Builder, TensorSpec
from gpugoblin.optim.schedules import Schedule, require, schedule_of
from gpugoblin.optim.step import Optimizer, Slot
from gpugoblin.optim.terms import Term, formula

__all__ = ["Adam", "AdamW"]


@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """D. Kingma and J. Ba, *Adam: a method for stochastic optimization* (ICLR 2015), algorithm 1.

    Args:
        rate: a number, or a schedule.
        beta1, beta2: shares of the past in the mean and in the mean square of the gradients.
        weight_decay: so many times the parameter is added to its gradient.
        amsgrad: divide by the largest mean square so far: S. Reddi, S. Kale and S. Kumar, *On the
            convergence of Adam and beyond* (ICLR 2018).

    Raises:
        GraphError: attribute_invalid.
    """

    rate: float | Schedule = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False

    def __post_init__(self) -> None:
        schedule_of(self.rate)
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            require(self, name, 0 <= value < 1, "0 or more and less than 1 is wanted")
        require(self, "epsilon", self.epsilon >= 0, "0 or more is wanted")
        require(self, "weight_decay", self.weight_decay >= 0, "0 or more is wanted")

    def slots(self, spec: TensorSpec) -> tuple[Slot, ...]:
        names = ("mean", "square", "largest") if self.amsgrad else ("mean", "square")
        return tuple(Slot(name, spec) for name in names)

    def shared(self, builder: Builder, step: int, since: int | None = None) -> tuple[int, ...]:
        """The rate, and the root and the rate of what the means lack in the first steps."""
        rate = formula(builder, [step], schedule_of(self.rate).write)
        since = step if since is None else since

        def stride(step: Term, rate: Term) -> Term:
            return rate / _lack(step, self.beta1)

        def root(step: Term) -> Term:
            return _lack(step, self.beta2).call("sqrt")

        return (
            rate,
            formula(builder, [since, rate], stride),
            formula(builder, [since], root),
        )

    def update(
        self,
        builder: Builder,
        shared: Sequence[int],
        parameter: int,
        gradient: int,
        state: Sequence[int],
    ) -> tuple[int, tuple[int, ...]]:
        gradient = self._slope(builder, parameter, gradient)
        _, stride, root = shared
        mean = formula(
            builder, [gradient, state[0]], lambda g, m: m * self.beta1 + g * (1 - self.beta1)
        )
        square = formula(
            builder, [gradient, state[1]], lambda g, v: v * self.beta2 + g * g * (1 - self.beta2)
        )
        kept = [mean, square]
        if self.amsgrad:
            kept.append(call(builder, "max", square, state[2]))

        def moved(p: Term, m: Term, v: Term, alpha: Term, lack: Term, *rate: Term) -> Term:
            base = p - p * (rate[0] * self._pull()) if rate else p
            return base - alpha * m / (v.call("sqrt") / lack + self.epsilon)

        operands = [parameter, mean, kept[-1], stride, root]
        if self._pull():
            operands.append(shared[0])
        return formula(builder, operands, moved), tuple(kept)

    def _slope(self, builder: Builder, parameter: int, gradient: int) -> int:
        """The gradient with the decay that is part of it."""
        if not self.weight_decay:
            return gradient
        return formula(builder, [gradient, parameter], lambda g, p: g + p * self.weight_decay)

    def _pull(self) -> float:
        """The decay that is beside the gradient."""
        return 0.0


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Adam with a decay beside the gradient: I. Loshchilov and F. Hutter, *Decoupled weight decay
    regularization* (ICLR 2019), algorithm 2. A step also takes rate times weight_decay of the
    parameter away."""

    weight_decay: float = 1e-2

    def _slope(self, builder: Builder, parameter: int, gradient: int) -> int:
        return gradient

    def _pull(self) -> float:
        return self.weight_decay


def _lack(step: Term, beta: float) -> Term:
    """1 - beta^(step + 1), of which the logarithm keeps the digits."""
    if beta == 0:
        return step * 0.0 + 1.0
    return -((step + 1.0) * math.log(beta)).call("expm1")
