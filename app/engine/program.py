"""A compiled graph: bound steps over a fixed memory layout, ready to be replayed on any tensors.

Owns: the data and its replay. Must not: compile, allocate more than small views, or know a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.engine.context import Context
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec

__all__ = ["Program", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel call, or one view where `view` is set.

    Args:
        node: the node of the graph that an error is reported at.
        share: of the whole work, for progress.
    """

    node: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    run: Callable[[Sequence[Array], Sequence[Array], Context], None] | None
    view: Callable[[Array], Array] | None
    share: float


Home = tuple[Literal["input", "constant", "output", "arena"], int]


@dataclass(slots=True)
class Program:
    """A program for tensors of exactly the given specs.

    Args:
        homes: for every value that is stored: which input, constant or output it is, or its byte
            offset in the arena. Views and values inside fused chains have none.
        copies: (output, value): outputs that are copied at the end.
        scratch_bytes: what kernels take beside the arena, one node at a time, at most.
        canonical: in the end every NaN gets one bit pattern (class `exact`).
        position: the node that runs now, or ran last.
    """

    input_specs: tuple[TensorSpec, ...]
    output_specs: tuple[TensorSpec, ...]
    specs: tuple[TensorSpec, ...]
    constants: tuple[Array, ...]
    homes: dict[int, Home]
    steps: tuple[Step, ...]
    copies: tuple[tuple[int, int], ...]
    arena_bytes: int
    scratch_bytes: int
    canonical: bool = False
    position: int = -1

    @property
    def private_bytes(self) -> int:
        """Memory beside inputs and outputs: arena and scratch."""
        return self.arena_bytes + self.scratch_bytes

    def prepare(self) -> None:
        """Nothing: the session gives the arena."""

    def release(self) -> None:
        """Nothing: it holds memory of Python only."""

    def run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        arena: Array,
        context: Context,
    ) -> None:
        """Fills `outputs`.

        Args:
            arena: `arena_bytes` bytes, aligned to 64.

        Raises:
            KernelError, Cancelled: `position` names the node.
        """
        self.position = -1
        values = {
            value: self._bind(value, home, inputs, outputs, arena)
            for value, home in self.homes.items()
        }
        for step in self.steps:
            self.position = step.node
            context.begin_step(step.share)
            reads = [values[value] for value in step.reads]
            if step.view is not None:
                values[step.writes[0]] = step.view(reads[0])
            if step.run is not None:
                step.run(reads, [values[value] for value in step.writes], context)
        for output, value in self.copies:
            context.check()
            np.copyto(outputs[output], values[value])
        if self.canonical:
            for array in outputs:
                if array.dtype.kind == "f":
                    np.copyto(array, np.nan, where=np.isnan(array))

    def _bind(
        self,
        value: int,
        home: Home,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        arena: Array,
    ) -> Array:
        kind, place = home
        spec = self.specs[value]
        if kind == "arena":
            array = arena[place : place + spec.nbytes].view(DTYPES[spec.dtype])
        elif kind == "input":
            array = inputs[place]
        elif kind == "output":
            array = outputs[place]
        else:
            array = self.constants[place]
        return array.reshape(spec.shape)
