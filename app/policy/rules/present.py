"""Is the card there, chosen, and the machine awake?"""

from __future__ import annotations

from typing import Final

from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict

__all__ = ["ASLEEP", "CARDS"]


def _cards(situation: Situation) -> Verdict | None:
    card = situation.card
    if card.trouble:
        return Verdict(Ruling.STOP, Reason("card_unusable", (("why", card.trouble),)))
    chosen = situation.choices.texts("cards.lend")
    if chosen and not {str(card.card), card.identity} & set(chosen):
        return Verdict(Ruling.STOP, Reason("card_not_chosen"))
    return None


def _asleep(situation: Situation) -> Verdict | None:
    if not situation.snapshot.is_asleep:
        return None
    return Verdict(Ruling.STOP, Reason("machine_sleeps"))


CARDS: Final = Rule(
    "cards",
    "Only the cards that you chose are lent, and none that is unplugged or has lost its driver.",
    _cards,
)
ASLEEP: Final = Rule(
    "sleep",
    "When the machine is about to sleep the engine ends at once, and lending goes on after it"
    " wakes.",
    _asleep,
)
