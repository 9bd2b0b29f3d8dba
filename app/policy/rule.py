"""What a rule answers: a ruling, its reason as a code, and when it would change.

Owns: the vocabulary of the policy. Must not: know any rule, read a clock, do I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from app.policy.snapshot import CardFacts, Snapshot

__all__ = ["Reason", "Rule", "Ruling", "Verdict"]


class Ruling(IntEnum):
    """What a card may do now. The larger number is the stricter one, and the strictest wins."""

    RUN = 0
    THROTTLE = 1
    FREEZE = 2
    STOP = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, as a code with figures. People's words for it live in one table (`app.control.words`).

    Args:
        code: lower snake case, stable.
        fields: sorted (name, value) pairs that the words name.
    """

    code: str
    fields: tuple[tuple[str, float | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule's answer for one card. `until_s`: when it would change by itself, if known."""

    ruling: Ruling
    reason: Reason
    until_s: float | None = None


class Rule(Protocol):
    """A pure and total function: an unknown fact gives the cautious verdict, never an exception."""

    def __call__(self, snapshot: Snapshot, card: CardFacts) -> Verdict: ...
