"""What the policy looks at: facts of one moment, gathered by probes.

Owns: the data. Must not: gather anything. An unknown fact is None, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CardFacts", "CardKind", "Snapshot"]

CardKind = Literal["cpu", "vulkan", "cuda"]


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One card. A FREEZE keeps memory, so it is lasting only where `kind` is `cpu`."""

    card: int
    kind: CardKind


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The machine at `now_s` (Unix seconds)."""

    now_s: float
    cards: tuple[CardFacts, ...]
