"""A graphics card that another program uses is not lent: a game, a render, a colleague's job."""

from __future__ import annotations

from typing import Final

from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict, unknown
from app.policy.snapshot import ForeignUse
from gpugoblin.units import MIB

__all__ = ["CARD_MEMORY", "FOREIGN"]


def _foreign(situation: Situation) -> Verdict | None:
    card, choices = situation.card, situation.choices
    if card.kind == "cpu" or not choices.flag("foreign.stop"):
        return None
    if card.foreign is None:
        return unknown(situation, "foreign")
    lenders = [use.program for use in card.foreign if use.is_lender]
    if lenders:
        return Verdict(Ruling.STOP, Reason("lent_by_another", (("holder", lenders[0]),)))
    ignored = set(choices.texts("foreign.ignore"))
    users = sorted({use.program for use in card.foreign if use.program not in ignored
                    and _is_use(situation, use)})  # fmt: skip
    if not users:
        return None
    return Verdict(Ruling.STOP, Reason("card_used", (("programs", ", ".join(users)),)))


def _is_use(situation: Situation, use: ForeignUse) -> bool:
    choices = situation.choices
    if use.memory_bytes >= choices.number("foreign.memory_mib") * MIB:
        return True
    limit_percent = choices.number("foreign.busy_percent")
    return use.busy_percent is not None and use.busy_percent >= limit_percent


def _card_memory(situation: Situation) -> Verdict | None:
    card = situation.card
    if card.kind == "cpu" or card.memory_bytes is None or card.memory_used_bytes is None:
        return None
    # Others may have what we do not lend at most; while stopped, a little less, lest it flaps.
    left = 100.0 - situation.choices.number("card_memory.most_percent")
    percent = 100.0 * card.memory_used_bytes / max(1, card.memory_bytes)
    if percent <= max(left, 10.0) + (0.0 if situation.is_stopped else 2.0):
        return None
    most_percent = situation.choices.number("card_memory.most_percent")
    return Verdict(Ruling.STOP, Reason("card_memory_short", (("most_percent", most_percent),)))


FOREIGN: Final = Rule(
    "foreign",
    "While another program uses a graphics card (300 MiB of its memory or 10 % of its time, the"
    " desktop itself aside), that card is not lent; the others are.",
    _foreign,
    settle="calm.after_s",
)
CARD_MEMORY: Final = Rule(
    "card_memory",
    "A graphics card stops when others need so much of its memory that your share of"
    " `card_memory.most_percent` is not free.",
    _card_memory,
    settle="calm.after_s",
)
