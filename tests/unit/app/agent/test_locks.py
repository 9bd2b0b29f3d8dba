"""The lock of a card: one holder a machine, named to whoever comes second."""

from __future__ import annotations

import os

import pytest

from app.agent.locks import take_card
from gpugoblin.errors import AgentError
from gpugoblin.ids import fresh_id


def test_the_second_is_told_who_the_first_is() -> None:
    card = fresh_id("card")
    lock = take_card(card)
    with pytest.raises(AgentError, match=f"process {os.getpid()} of this user") as caught:
        take_card(card)
    assert caught.value.code == "card_taken"
    lock.release()
    lock.release()
    take_card(card).release()


def test_other_cards_are_free() -> None:
    first, second = take_card(fresh_id("card")), take_card(fresh_id("card"))
    first.release()
    second.release()


def test_a_shared_card_is_not_locked() -> None:
    card = fresh_id("card")
    first, second = take_card(card, is_shared=True), take_card(card, is_shared=True)
    first.release()
    second.release()
    take_card(card).release()
