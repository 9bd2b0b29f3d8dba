"""The graph of one step of an optimizer, and clipping of gradients.

Owns: the order of inputs and outputs, the counting of steps and the norm of all gradients. Must
not: know any one optimizer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpugoblin.catalog.building import call, reduced
from gpugoblin.catalog.rules import require_dtype
from gpugoblin.catalog.spec import DTYPES, Array, Builder, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.optim.terms import Term, formula

__all__ = ["Optimizer", "Slot", "StepGraph", "clipped"]

STEP = TensorSpec("int64", ())


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor that an optimizer keeps for a parameter, zeros before the first step."""

    name: str
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class StepGraph:
    """One step as a graph.

    Args:
        graph: inputs: the parameters, their gradients, the state, and the number of steps done
            (int64). outputs: the parameters and the state after the step.
        state: for each tensor of the state the number of its parameter, and what it is.
    """

    graph: Graph
    parameters: tuple[TensorSpec, ...]
    state: tuple[tuple[int, Slot], ...]

    def initial(self) -> list[Array]:
        """The state before the first step."""
        return [np.zeros(slot.spec.shape, DTYPES[slot.spec.dtype]) for _, slot in self.state]


class Optimizer(ABC):
    """What `optim/*.py` declare: numbers, and how a parameter follows from its gradient."""

    __slots__ = ()

    elementwise: ClassVar[bool] = True
    """Whether an element follows from its own gradient and state alone, whatever its tensor."""

    @abstractmethod
    def slots(self, spec: TensorSpec) -> tuple[Slot, ...]:
        """What is kept for a parameter."""

    @abstractmethod
    def shared(self, builder: Builder, step: int, since: int | None = None) -> tuple[int, ...]:
        """float32 scalars that all parameters use, from the number of steps done (float32).

        Args:
            since: steps since the state was zeros, where that is another number.
        """

    @abstractmethod
    def update(
        self,
        builder: Builder,
        shared: Sequence[int],
        parameter: int,
        gradient: int,
        state: Sequence[int],
    ) -> tuple[int, tuple[int, ...]]:
        """The parameter and its state after the step."""

    def step_graph(
        self, parameters: Sequence[TensorSpec], *, clip_norm: float | None = None
    ) -> StepGraph:
        """The graph of one step for parameters of the given specs.

        Args:
            parameters: float32, one or more.
            clip_norm: gradients whose norm, taken over all of them, is larger are scaled to it.

        Raises:
            GraphError: dtype_unsupported, attribute_invalid, over_limit; graph_malformed for none.
        """
        name = type(self).__name__
        for spec in parameters:
            require_dtype(name, spec, ("float32",))
        slots = [
            (number, one) for number, spec in enumerate(parameters) for one in self.slots(spec)
        ]
        builder = GraphBuilder()
        values = [builder.input(spec) for spec in parameters]
        gradients = [builder.input(spec) for spec in parameters]
        kept = [builder.input(one.spec) for _, one in slots]
        step = builder.add("cast", [builder.input(STEP)], dtype="float32")
        if clip_norm is not None:
            gradients = clipped(builder, gradients, clip_norm)
        shared = self.shared(builder, step)
        after: list[int] = []
        state: list[int] = []
        for number, (value, slope) in enumerate(zip(values, gradients, strict=True)):
            own = [one for one, (of, _) in zip(kept, slots, strict=True) if of == number]
            found, left = self.update(builder, shared, value, slope, own)
            after.append(found)
            state.extend(left)
        return StepGraph(builder.build([*after, *state]), tuple(parameters), tuple(slots))


def clipped(builder: Builder, gradients: Sequence[int], norm: float) -> list[int]:
    """Gradients scaled by min(1, norm / (the norm of all of them + 1e-6)), as PyTorch does.

    Raises:
        GraphError: attribute_invalid.
    """
    if not (math.isfinite(norm) and norm > 0):
        raise GraphError(
            "attribute_invalid",
            operator="clipping",
            attribute="clip_norm",
            value=norm,
            reason="a finite number above 0 is wanted",
        )
    squares = [_square_sum(builder, gradient) for gradient in gradients]
    while len(squares) > 1:
        pairs = [squares[at : at + 2] for at in range(0, len(squares), 2)]
        squares = [call(builder, "add", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    if not squares:
        return []

    def scale(total: Term) -> Term:
        return (norm / (total.call("sqrt") + 1e-6)).call("min", 1.0)

    factor = formula(builder, squares, scale)
    return [call(builder, "mul", gradient, factor) for gradient in gradients]


def _square_sum(builder: Builder, value: int) -> int:
    squares = call(builder, "mul", value, value)
    rank = builder.spec(value).rank
    return reduced(builder, "sum", squares, range(rank), keepdims=False) if rank else squares
