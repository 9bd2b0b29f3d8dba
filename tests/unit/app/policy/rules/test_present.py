"""Cards that are chosen, cards that are gone, and sleep."""

from __future__ import annotations

from dataclasses import replace

from app.policy.rules.present import ASLEEP, CARDS
from tests.helpers.situations import CPU, GPU, code, facts, judge


def test_a_card_that_is_gone_is_not_lent() -> None:
    gone = judge(CARDS, card=replace(GPU, trouble="it was unplugged"))
    assert code(gone) == "card_unusable"
    assert gone is not None
    assert gone.reason.fields == (("why", "it was unplugged"),)


def test_only_chosen_cards_are_lent() -> None:
    assert judge(CARDS) is None
    assert judge(CARDS, card=GPU, cards__lend=["GPU-1"]) is None
    assert judge(CARDS, card=GPU, cards__lend=["1"]) is None
    assert code(judge(CARDS, card=CPU, cards__lend=["GPU-1", "10"])) == "card_not_chosen"


def test_a_machine_that_goes_to_sleep_stops() -> None:
    assert judge(ASLEEP) is None
    assert code(judge(ASLEEP, facts(is_asleep=True))) == "machine_sleeps"
