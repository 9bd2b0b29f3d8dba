"""Profiles over settings, a card's own values over both."""

from __future__ import annotations

import pytest

from app.policy.choices import PROFILES, own_value
from app.policy.settings import POLICY
from tests.helpers.situations import CPU, GPU, choices


def test_every_value_of_a_profile_is_one_of_its_setting() -> None:
    declared = {setting.name: setting for setting in POLICY}
    for fixed in PROFILES.values():
        for name, value in fixed.items():
            assert declared[name].check(value, "profile") == value


def test_custom_leaves_all_to_the_owner() -> None:
    own = choices(profile="custom", away__when_present="go_on")
    assert own.text("away.when_present") == "go_on"
    assert choices(profile="away", away__when_present="go_on").text("away.when_present") == "stop"


def test_a_cards_own_values_by_number_or_identity() -> None:
    given = choices(cards__own=["1 heat.card_stop_c = 70", 'GPU-1 games.programs = ["a", "b"]'])
    assert given.of(CPU).number("heat.card_stop_c") == 83
    assert given.of(GPU).number("heat.card_stop_c") == 70
    assert given.of(GPU).texts("games.programs") == ("a", "b")
    assert given.of(GPU) is given.of(GPU)


def test_kinds_are_not_confused() -> None:
    given = choices()
    with pytest.raises(TypeError):
        given.number("profile")
    with pytest.raises(TypeError):
        given.texts("profile")


@pytest.mark.parametrize("text", ["", "1", "1 x", "1 =3", "1 a = {b = 1}", "1 a = ]"])
def test_what_is_no_own_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        own_value(text)
