"""Rates that change with the step: formulas of the number of steps done.

Owns: the schedules. A rate is made in the step's own graph, so the same graph serves all steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from gpugoblin.catalog.building import tree
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.registry import get
from gpugoblin.errors import GraphError
from gpugoblin.optim.terms import Term, minimum, where

__all__ = [
    "Constant",
    "Cosine",
    "Exponential",
    "OneCycle",
    "Schedule",
    "Stairs",
    "Warmup",
    "require",
    "schedule_of",
]


def require(owner: object, name: str, valid: bool, reason: str) -> None:
    """Requires a fitting number of an optimizer or schedule.

    Raises:
        GraphError: attribute_invalid.
    """
    if not valid:
        raise GraphError(
            "attribute_invalid",
            operator=type(owner).__name__,
            attribute=name,
            value=getattr(owner, name),
            reason=reason,
        )


class Schedule(ABC):
    """A rate for each step, from 0 on."""

    __slots__ = ()

    @abstractmethod
    def write(self, step: Term) -> Term:
        """The rate after `step` steps, a float32."""

    def value(self, step: int) -> float:
        """The rate after `step` steps, as the formula gives it."""

        def nodes(build: FormulaBuilder, node: int) -> int:
            return self.write(Term(build, node, "int64").cast("float32")).node

        (found,) = get("formula").reference([np.array(step, np.int64)], {"tree": tree(1, nodes)})
        return float(found)


def schedule_of(rate: float | Schedule) -> Schedule:
    return rate if isinstance(rate, Schedule) else Constant(rate)


@dataclass(frozen=True, slots=True)
class Constant(Schedule):
    rate: float

    def __post_init__(self) -> None:
        require(self, "rate", math.isfinite(self.rate), "a finite number is wanted")

    def write(self, step: Term) -> Term:
        # A formula reads all its inputs, this one for nothing.
        return 0.0 * step + self.rate


@dataclass(frozen=True, slots=True)
class Warmup(Schedule):
    """In a line from `start` to the first rate of `after`, in `steps` steps; then `after`."""

    after: Schedule
    steps: int
    start: float = 0.0

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 1, "1 or more is wanted")
        require(self, "start", math.isfinite(self.start), "a finite number is wanted")

    def write(self, step: Term) -> Term:
        gain = (self.after.value(0) - self.start) / self.steps
        rest = (step - float(self.steps)).call("max", 0.0)
        return where(step < float(self.steps), step * gain + self.start, self.after.write(rest))


@dataclass(frozen=True, slots=True)
class Cosine(Schedule):
    """Half a wave from `rate` to `least` in `steps` steps, then `least`: I. Loshchilov and
    F. Hutter, *SGDR* (ICLR 2017), equation 5, without restarts."""

    rate: float
    steps: int
    least: float = 0.0

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 1, "1 or more is wanted")

    def write(self, step: Term) -> Term:
        turn = (minimum(step, float(self.steps)) * (math.pi / self.steps)).call("cos")
        return (turn + 1.0) * ((self.rate - self.least) / 2) + self.least


@dataclass(frozen=True, slots=True)
class Stairs(Schedule):
    """`rate`, multiplied by `factor` after every `every` steps."""

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        require(self, "every", self.every >= 1, "1 or more is wanted")
        require(self, "factor", self.factor > 0, "more than 0 is wanted")

    def write(self, step: Term) -> Term:
        # Half a step more, so that no rounding of the quotient puts a stair one step late.
        stairs = ((step + 0.5) / float(self.every)).call("floor")
        return (stairs * math.log(self.factor)).call("exp") * self.rate


@dataclass(frozen=True, slots=True)
class Exponential(Schedule):
    """`rate`, multiplied by `factor` after every step."""

    rate: float
    factor: float

    def __post_init__(self) -> None:
        require(self, "factor", self.factor > 0, "more than 0 is wanted")

    def write(self, step: Term) -> Term:
        return (step * math.log(self.factor)).call("exp") * self.rate


@dataclass(frozen=True, slots=True)
class OneCycle(Schedule):
    """Half a wave up from `peak / start` to `peak` in the share `rise` of `steps`, and one down to
    `peak / (start * end)`: L. Smith and N. Topin, *Super-convergence* (2018), as PyTorch has it."""

    peak: float
    steps: int
    rise: float = 0.3
    start: float = 25.0
    end: float = 1e4

    def __post_init__(self) -> None:
        require(self, "rise", 0 < self.rise < 1, "more than 0 and less than 1 is wanted")
        require(self, "steps", self.rise * self.steps > 1, "more than one step must rise")
        require(self, "start", self.start > 0, "more than 0 is wanted")
        require(self, "end", self.end > 0, "more than 0 is wanted")

    def write(self, step: Term) -> Term:
        top, last = self.rise * self.steps - 1, self.steps - 1
        first = self.peak / self.start
        up = _wave(first, self.peak, step * (1 / top))
        at = minimum(step - top, float(last - top)) * (1 / (last - top))
        down = _wave(self.peak, first / self.end, at)
        return where(step <= top, up, down)


def _wave(first: float, last: float, share: Term) -> Term:
    return ((share * math.pi).call("cos") + 1.0) * ((first - last) / 2) + last
