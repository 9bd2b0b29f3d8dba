"""From verdicts to one ruling a card: the strictest wins, and all its reasons are kept.

Owns: the combination, and settling: a rule that eases must have been calm for its time. Must not:
hold a rule of its own; drop a reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.policy.choices import Choices
from app.policy.intent import LEND, Intent, intent_verdict, is_draining
from app.policy.rule import Held, Reason, Rule, Ruling, Situation, Verdict
from app.policy.snapshot import CardFacts, Snapshot

__all__ = ["CardRuling", "Memory", "combine", "decide"]

Memory = Mapping[tuple[int, str], Held]
"""What each rule (by its name) said last about each card, where it was stricter than RUN."""

NOTHING_AGAINST: Final = Verdict(Ruling.RUN, Reason("lending"))


@dataclass(frozen=True, slots=True)
class CardRuling:
    """What holds for one card now.

    Args:
        reasons: of every verdict that is stricter than RUN, the strictest first and the owner's
            first of all; under RUN those that say why it runs. Each with its own `until_s`.
        is_draining: the running task may end, none may begin.
        until_s: when this ruling may change by itself (Unix seconds); None: unknown.
        duty_percent: of the time, under THROTTLE.
    """

    card: int
    ruling: Ruling
    reasons: tuple[Reason, ...]
    is_draining: bool = False
    until_s: float | None = None
    duty_percent: int = 100


def combine(card: int, verdicts: Sequence[Verdict], *, is_draining: bool = False) -> CardRuling:
    """The strictest of the verdicts; RUN when there is none.

    A ruling eases only when all its causes have passed, so its `until_s` is the latest of theirs,
    and unknown as soon as one of them is. RUN lasts until the first of its reasons ends.
    """
    given = list(verdicts) or [NOTHING_AGAINST]
    ruling = max(verdict.ruling for verdict in given)
    causes = [verdict for verdict in given if verdict.ruling == ruling]
    shown = [each for each in given if each.ruling > Ruling.RUN] or causes
    shown.sort(key=lambda verdict: -verdict.ruling)
    ends = [verdict.until_s for verdict in causes]
    known = [end for end in ends if end is not None]
    if ruling is Ruling.RUN:
        until_s = min(known, default=None)
    else:
        until_s = max(known) if len(known) == len(ends) else None
    return CardRuling(
        card=card,
        ruling=ruling,
        reasons=tuple(replace(each.reason, until_s=each.until_s) for each in shown),
        is_draining=(is_draining or any(each.is_draining for each in given))
        and ruling < Ruling.STOP,
        until_s=until_s,
        duty_percent=min(verdict.duty_percent for verdict in given),
    )


def decide(
    snapshot: Snapshot,
    rules: Sequence[Rule],
    intents: Mapping[int, Intent],
    choices: Choices,
    memory: Memory,
) -> tuple[tuple[CardRuling, ...], Memory]:
    """The ruling of every card of the snapshot, in its order, and what to remember for the next."""
    rulings: list[CardRuling] = []
    kept: dict[tuple[int, str], Held] = {}
    for facts in snapshot.cards:
        intent = intents.get(facts.card, LEND)
        verdicts = _verdicts(snapshot, facts, rules, choices.of(facts), memory, kept)
        own = intent_verdict(intent, snapshot.now_s)
        if own is not None:
            verdicts.insert(0, own)
        rulings.append(
            combine(facts.card, verdicts, is_draining=is_draining(intent, snapshot.now_s))
        )
    return tuple(rulings), kept


def _verdicts(
    snapshot: Snapshot,
    facts: CardFacts,
    rules: Sequence[Rule],
    choices: Choices,
    memory: Memory,
    kept: dict[tuple[int, str], Held],
) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for rule in rules:
        held = memory.get((facts.card, rule.name))
        verdict = rule.judge(Situation(snapshot, facts, choices, held))
        next_held = _settled(rule, verdict, held, snapshot, choices)
        if next_held is not None:
            kept[facts.card, rule.name] = next_held
            verdict = next_held.verdict
        if verdict is not None:
            verdicts.append(verdict)
    return verdicts


def _settled(
    rule: Rule, verdict: Verdict | None, held: Held | None, snapshot: Snapshot, choices: Choices
) -> Held | None:
    """What a rule holds from now on; None when it holds nothing stricter than RUN."""
    now_s = snapshot.monotonic_s
    ruling = Ruling.RUN if verdict is None else verdict.ruling
    if held is not None and ruling < held.verdict.ruling:
        wait_s = choices.number(rule.settle) if rule.settle else 0.0
        # Nobody looks while nothing changes: what was called for last has ended only now.
        ended_s = held.called_s if _is_calming(held.verdict) else now_s
        left_s = ended_s + wait_s - now_s
        if left_s > 0:
            verdict = _calming(held.verdict, snapshot.now_s + left_s)
            return replace(held, verdict=verdict, called_s=ended_s)
    if verdict is None or ruling is Ruling.RUN:
        return None
    is_same = held is not None and held.verdict.ruling == ruling
    since_s = held.since_s if held is not None and is_same else now_s
    return Held(verdict, since_s, now_s)


def _is_calming(verdict: Verdict) -> bool:
    return verdict.reason.code == "was_needed"


def _calming(verdict: Verdict, until_s: float) -> Verdict:
    """The verdict of a cause that has just passed. Its end does not move while it settles."""
    if not _is_calming(verdict):
        code = verdict.reason.code
        fields = tuple(sorted((*verdict.reason.fields, ("cause", code))))
        until_s = math.ceil(until_s * 10) / 10
        return replace(verdict, reason=Reason("was_needed", fields), until_s=until_s)
    return verdict
