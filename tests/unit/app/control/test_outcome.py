"""One line a card for what an owner's word did."""

from __future__ import annotations

import pytest

from app.control.messages import CardItem, ReasonItem
from app.control.outcome import Verb, outcome, settled

PAUSED = (ReasonItem("owner_paused"),)


def card(**fields: object) -> CardItem:
    values: dict[str, object] = {
        "key": "card-0", "card": 0, "kind": "cpu", "ruling": "RUN",
        "reasons": (ReasonItem("lending"),), "until_s": None, "is_draining": False,
        "engine": "ready", "doing": "computing", "sandbox_level": "full", "lab": "", "queued": 1,
        "done": 0, "failures": 0, "flops_per_s": 0.0,
    }  # fmt: skip
    return CardItem(**{**values, **fields})  # type: ignore[arg-type]


STOPPED = card(ruling="STOP", engine="absent", doing="stopped", reasons=PAUSED)


@pytest.mark.parametrize(
    ("verb", "shown", "is_settled", "words"),
    [
        ("pause", STOPPED, True, "paused, until you resume. Its engine is gone"),
        ("pause", card(ruling="STOP", engine="stopping"), False, "Its engine is ending now."),
        ("pause", card(), False, "Its engine is ending now."),
        ("stop", STOPPED, True, "stopped, and its grants are given up, until you resume."),
        ("finish", card(is_draining=True), True, "its running task is the last one"),
        ("finish", STOPPED, True, "it had no task, so it is paused already"),
        ("resume", card(), True, "lends again: computing, because nothing forbids it."),
        ("resume", STOPPED, False, "resumed, but not lending, because you paused it."),
    ],
)
def test_what_happened_and_when_it_holds(
    verb: Verb, shown: CardItem, is_settled: bool, words: str
) -> None:
    assert settled(verb, shown) is is_settled
    (line,) = outcome(verb, [shown], 0.0)
    assert line.startswith("Card 0: ")
    assert words in line


def test_a_pause_for_a_while_says_until_when() -> None:
    shown = card(ruling="STOP", engine="absent", doing="stopped", until_s=0.0)
    assert ":00, or until you resume." in outcome("pause", [shown], 0.0)[0]


def test_a_card_whose_engine_is_still_to_start_does_not_contradict_itself() -> None:
    (line,) = outcome("resume", [card(ruling="RUN", doing="stopped", engine="absent")], 0.0)
    assert line == "Card 0: lends again: its engine starts."
