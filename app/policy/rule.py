"""What a rule is and what it answers: a ruling, its reason as a code, and when it would change.

Owns: the vocabulary of the policy. Must not: know any rule, read a clock, do I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from app.policy.choices import Choices
from app.policy.snapshot import CardFacts, Snapshot

__all__ = ["Held", "Reason", "Rule", "Ruling", "Situation", "Verdict", "unknown"]


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
        code: lower snake case, stable, declared in `app.policy.reasons`.
        fields: sorted (name, value) pairs that the words name. Moments end in `_at_s` (Unix
            seconds). Nothing that changes all the time: a reason is told again when it changes.
        until_s: when it would change by itself (Unix seconds), if known.
    """

    code: str
    fields: tuple[tuple[str, float | str], ...] = ()
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule's answer for one card.

    Args:
        until_s: when it would change by itself, if known.
        is_draining: the running task may end, none may begin.
        duty_percent: of the time, under THROTTLE.
    """

    ruling: Ruling
    reason: Reason
    until_s: float | None = None
    is_draining: bool = False
    duty_percent: int = 100


@dataclass(frozen=True, slots=True)
class Held:
    """What a rule said before about a card.

    Args:
        verdict: what held, after settling.
        since_s: the first moment of this ruling (monotonic).
        called_s: the last moment at which the rule itself was seen to call for it (monotonic);
            while it calms down, the moment at which it was first seen not to.
    """

    verdict: Verdict
    since_s: float
    called_s: float


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a rule may look at. `choices` are those for this card."""

    snapshot: Snapshot
    card: CardFacts
    choices: Choices
    held: Held | None = None

    @property
    def is_stopped(self) -> bool:
        """True while this very rule stops the card: the other side of a hysteresis."""
        return self.held is not None and self.held.verdict.ruling is Ruling.STOP


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Args:
        name: of its file.
        sentence: what it does, for the docs and the window.
        judge: pure and total: an unknown fact gives the cautious verdict, never an exception; None
            when the rule has nothing to say.
        settle: the setting with the seconds for which a cause must be gone before it eases.
    """

    name: str
    sentence: str
    judge: Callable[[Situation], Verdict | None]
    settle: str = ""


def unknown(situation: Situation, fact: str) -> Verdict:
    """STOP, since a fact that a rule needs is unknown. `fact`: a field of `Snapshot`."""
    why = situation.snapshot.why_unknown.get(fact, "it has not been looked at yet")
    return Verdict(Ruling.STOP, Reason(f"{fact}_unknown", (("why", why),)))
