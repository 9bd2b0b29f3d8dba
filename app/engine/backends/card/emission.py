"""What an emitter of an operator returns, and its signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.engine.backends.card.stages import Stage
from gpugoblin.catalog.spec import Attributes, TensorSpec

__all__ = ["Emission", "Emitter"]


@dataclass(frozen=True, slots=True)
class Emission:
    """The dispatches of one operator.

    Args:
        scratch_bytes: beside inputs and outputs.
        checks: whether a stage writes the error slot: the index and 1, two int64.
    """

    stages: tuple[Stage, ...]
    scratch_bytes: int = 0
    checks: bool = False


Emitter = Callable[[Attributes, Sequence[TensorSpec], Sequence[TensorSpec]], Emission]
"""(attributes, inputs, outputs) -> dispatches."""
