"""What a compiled graph is before a card's own interface records it: steps over one block.

Owns: the data of a layout. Must not: know how a card is told to run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.engine.backends.card.stages import Stage
from app.engine.context import KernelError
from gpugoblin.catalog.spec import Array, TensorSpec

__all__ = ["ALIGNMENT_BYTES", "ERROR_SLOT_BYTES", "CardStep", "Layout", "first_error"]

ALIGNMENT_BYTES: Final = 256
"""Of every tensor in the block."""

ERROR_SLOT_BYTES: Final = 16
"""An int64 and whether it was written, of one step that may refuse its values."""


@dataclass(frozen=True, slots=True)
class CardStep:
    """The dispatches of one group of nodes.

    Args:
        node: that an error is reported at.
        stages: with the place in the block of each stage's tensors: first byte and length.
        weight: how long it takes, in arbitrary units.
        error: axis and extent, when the step checks indices.
    """

    node: int
    stages: tuple[tuple[Stage, tuple[tuple[int, int], ...]], ...]
    weight: float
    error: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Steps over one block, for tensors of exactly the given specs.

    Args:
        inputs, outputs, constants: the place of each in the block.
        copies: (from, to, bytes) within the block, once all steps are done.
        errors: place of the error slots in the block, one a step, and their number.
        size_bytes: of the block.
        canonical: every NaN of a result has one bit pattern in the end.
    """

    input_specs: tuple[TensorSpec, ...]
    output_specs: tuple[TensorSpec, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[tuple[int, Array], ...]
    steps: tuple[CardStep, ...]
    copies: tuple[tuple[int, int, int], ...]
    errors: tuple[int, int]
    size_bytes: int
    canonical: bool = False

    def finish(self, outputs: Sequence[Array]) -> None:
        """What is left to do on the host's side."""
        for array in outputs if self.canonical else ():
            if array.dtype == np.float32:
                array[np.isnan(array)] = np.float32(np.nan)


def first_error(steps: Sequence[CardStep], slots: Array) -> tuple[int, KernelError] | None:
    """What the error slots, [steps, 2] int64, say after a run: the step's node and the error."""
    for step, (index, written) in zip(steps, slots.tolist(), strict=True):
        if written and step.error is not None:
            return step.node, KernelError("index_out_of_range", (index, *step.error))
    return None
