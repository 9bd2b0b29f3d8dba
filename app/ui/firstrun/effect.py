"""What a choice would mean right now, in one sentence: pure, no Qt.

Owns: the words of a preview. Must not: know a rule; the agent says what would hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.control import words
from app.control.messages import Item, WouldItem
from app.control.texts import _
from app.ui.facts import card_name, cards_of

__all__ = ["effect"]


def effect(would: Sequence[WouldItem], items: Mapping[str, Item]) -> str:
    """`Right now this would lend ...`, or why it would lend nothing."""
    names = {card.card: card_name(card) for card in cards_of(items)}
    lent = [names.get(one.card, str(one.card)) for one in would if one.ruling == "RUN"]
    slow = [names.get(one.card, str(one.card)) for one in would if one.ruling == "THROTTLE"]
    if slow:
        lent += [_("{card} (slowly)").format(card=name) for name in slow]
    if lent:
        return _("Right now this would lend: {cards}.").format(cards=", ".join(lent))
    if not would:
        return _("Right now this would lend nothing: no card was found.")
    causes = dict.fromkeys(
        words.reason(reason) for one in would for reason in one.reasons[:1]
    )  # a dict keeps the order and says each only once
    return _("Right now this would lend nothing: {reasons}.").format(
        reasons=_(" and ").join(list(causes)[:2])
    )
