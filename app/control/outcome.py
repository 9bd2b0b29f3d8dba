"""What an owner's word has done to the cards, in words, for the command line.

Owns: `settled` (has it taken effect?) and `outcome` (one line a card). Must not: ask anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from app.control import words
from app.control.messages import CardItem

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
    return [f"Card {card.card}: {_sentence(verb, card, now_s)}" for card in cards]


def _sentence(verb: Verb, card: CardItem, now_s: float) -> str:
    until = "until you resume"
    if card.until_s is not None:
        until = f"until {words.clock_time(card.until_s)}, or until you resume"
    if verb in ("pause", "stop"):
        done = "paused" if verb == "pause" else "stopped, and its grants are given up"
        if settled(verb, card):
            return f"{done}, {until}. Its engine is gone and its memory is free."
        return f"{done}, {until}. Its engine is ending now."
    if verb == "finish":
        if card.ruling == "STOP":
            return f"it had no task, so it is paused already, {until}."
        return f"its running task is the last one; when that is done it is paused, {until}."
    if card.ruling == "STOP":
        return f"resumed, but {words.card_sentence(card, now_s)}."
    if card.doing == "stopped":
        return "lends again: its engine starts."
    return f"lends again: {words.card_sentence(card, now_s)}."
