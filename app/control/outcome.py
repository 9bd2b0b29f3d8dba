"""What an owner's word has done to the cards, in words, for the command line.

Owns: `settled` (has it taken effect?) and `outcome` (one line a card). Must not: ask anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from app.control import words
from app.control.messages import CardItem
from app.control.texts import _

__all__ = ["Verb", "outcome", "settled"]

Verb = Literal["pause", "finish", "stop", "resume"]


def settled(verb: Verb, card: CardItem) -> bool:
    """True when nothing more has to happen for the word to hold."""
    if verb in ("pause", "stop"):
        return card.ruling == "STOP" and card.engine == "absent"
    if verb == "finish":
        return card.is_draining or card.ruling == "STOP"
    return card.ruling != "STOP" and not card.is_draining


def outcome(verb: Verb, cards: Iterable[CardItem], now_s: float) -> list[str]:
    """One line a card: what happened, and when it takes effect. `now_s`: Unix seconds."""
    return [
        _("Card {card}: {sentence}").format(card=card.card, sentence=_sentence(verb, card, now_s))
        for card in cards
    ]


def _sentence(verb: Verb, card: CardItem, now_s: float) -> str:
    until = _("until you resume")
    if card.until_s is not None:
        moment = words.clock_time(card.until_s)
        until = _("until {moment}, or until you resume").format(moment=moment)
    if verb in ("pause", "stop"):
        if verb == "pause":
            done = _("paused, {until}.").format(until=until)
        else:
            done = _("stopped, and its grants are given up, {until}.").format(until=until)
        if settled(verb, card):
            return f"{done} {_('Its engine is gone and its memory is free.')}"
        return f"{done} {_('Its engine is ending now.')}"
    if verb == "finish":
        if card.ruling == "STOP":
            return _("it had no task, so it is paused already, {until}.").format(until=until)
        return _("its running task is the last one; when that is done it is paused, {until}."
                 ).format(until=until)  # fmt: skip
    if card.ruling == "STOP":
        return _("resumed, but {sentence}.").format(sentence=words.card_sentence(card, now_s))
    if card.doing == "stopped":
        return _("lends again: its engine starts.")
    return _("lends again: {sentence}.").format(sentence=words.card_sentence(card, now_s))
