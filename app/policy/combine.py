"""From verdicts to one ruling a card: the strictest wins, and all its reasons are kept.

Owns: the combination. Must not: hold a rule of its own; drop a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.policy.intent import LEND, Intent, intent_verdict, is_draining
from app.policy.rule import Reason, Rule, Ruling, Verdict
from app.policy.snapshot import Snapshot

__all__ = ["CardRuling", "combine", "decide"]


@dataclass(frozen=True, slots=True)
class CardRuling:
    """What holds for one card now.

    Args:
        reasons: of every verdict as strict as `ruling`, the owner's first.
        is_draining: the running task may end, none may begin.
        until_s: the earliest moment (Unix seconds) at which the ruling can ease; None: unknown.
    """

    card: int
    ruling: Ruling
    reasons: tuple[Reason, ...]
    is_draining: bool = False
    until_s: float | None = None


def combine(card: int, verdicts: Sequence[Verdict], *, is_draining: bool = False) -> CardRuling:
    """The strictest of at least one verdict.

    A ruling eases only when all its causes have passed, so `until_s` is the latest of theirs, and
    unknown as soon as one of them is.
    """
    ruling = max(verdict.ruling for verdict in verdicts)
    causes = [verdict for verdict in verdicts if verdict.ruling == ruling]
    ends = [verdict.until_s for verdict in causes]
    until_s = max((end for end in ends if end is not None), default=None)
    if any(end is None for end in ends):
        until_s = None
    return CardRuling(
        card=card,
        ruling=ruling,
        reasons=tuple(verdict.reason for verdict in causes),
        is_draining=is_draining and ruling < Ruling.STOP,
        until_s=until_s,
    )


def decide(
    snapshot: Snapshot, rules: Sequence[Rule], intents: Mapping[int, Intent]
) -> tuple[CardRuling, ...]:
    """The ruling of every card of the snapshot, in its order."""
    rulings: list[CardRuling] = []
    for facts in snapshot.cards:
        intent = intents.get(facts.card, LEND)
        verdicts = [rule(snapshot, facts) for rule in rules]
        own = intent_verdict(intent, snapshot.now_s)
        if own is not None:
            verdicts.insert(0, own)
        rulings.append(
            combine(facts.card, verdicts, is_draining=is_draining(intent, snapshot.now_s))
        )
    return tuple(rulings)
