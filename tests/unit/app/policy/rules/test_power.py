"""Where power comes from and how much of it is used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.policy.rule import Held, Reason, Ruling, Verdict
from app.policy.rules.power import BATTERY, DUTY, POWER_CAP, cap_of
from app.policy.snapshot import PowerFacts
from gpugoblin.errors import SettingsError
from tests.helpers.situations import GPU, choices, code, facts, judge


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (PowerFacts(), ""),
        (PowerFacts(on_battery=True), "on_battery"),
        (PowerFacts(on_ups=True, on_battery=True), "on_ups"),
        (PowerFacts(is_saving=True), "saving_power"),
        (PowerFacts(lid_closed=True), ""),
        (None, "power_unknown"),
    ],
)
def test_supplies(power: PowerFacts | None, expected: str) -> None:
    assert code(judge(BATTERY, facts(power=power))) == expected


def test_the_owner_decides() -> None:
    off = {"battery__stop": False, "battery__saver_stops": False}
    assert judge(BATTERY, facts(power=None), **off) is None
    closed = facts(power=PowerFacts(lid_closed=True))
    assert code(judge(BATTERY, closed, battery__lid_stops=True)) == "lid_closed"


def test_a_cap_throttles_with_a_margin() -> None:
    hungry = replace(GPU, power_w=250.0)
    assert judge(POWER_CAP, card=hungry) is None
    capped = judge(POWER_CAP, card=hungry, power__cap_w=200)
    assert capped is not None
    assert (capped.ruling, capped.duty_percent) == (Ruling.THROTTLE, 50)
    held = Held(capped, 0.0, 0.0)
    less = replace(GPU, power_w=185.0)
    assert code(judge(POWER_CAP, card=less, held=held, power__cap_w=200)) == "power_capped"
    assert judge(POWER_CAP, card=less, power__cap_w=200) is None


def test_a_driver_that_holds_the_limit_needs_no_throttle() -> None:
    swaying = replace(GPU, power_w=203.0, limit_w=200.0)
    assert judge(POWER_CAP, card=swaying, power__cap_w=200) is None
    above = replace(GPU, power_w=203.0, limit_w=220.0)  # the least that this card takes
    assert code(judge(POWER_CAP, card=above, power__cap_w=200)) == "power_capped"


@pytest.mark.parametrize(
    ("cap_w", "percent", "default_w", "expected"),
    [
        (0, 0, 350.0, 0),
        (200, 0, 350.0, 200),
        (0, 60, 350.0, 210),
        (200, 60, 350.0, 200),
        (250, 60, 350.0, 210),
        (0, 60, None, 0),
        (250, 60, None, 250),
        (0, 1, 30.0, 1),
        (0, 100, 350.4, 350),
    ],
)
def test_watts_and_percent_of_the_default(
    cap_w: int, percent: int, default_w: float | None, expected: int
) -> None:
    chosen = choices(power__cap_w=cap_w, power__cap_percent=percent)
    assert cap_of(chosen, replace(GPU, default_w=default_w)) == expected


def test_a_cap_in_percent_throttles_each_card_by_its_own_size() -> None:
    small = replace(GPU, power_w=150.0, default_w=200.0)
    large = replace(GPU, power_w=150.0, default_w=400.0)
    said = judge(POWER_CAP, card=small, power__cap_percent=50)
    assert said is not None
    assert said.reason == Reason("power_capped", (("cap_w", 100),))
    assert judge(POWER_CAP, card=large, power__cap_percent=50) is None


@pytest.mark.parametrize("value", [-1, 101, 50.5, "half", True])
def test_a_percent_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(SettingsError) as error:
        choices(power__cap_percent=value)
    assert error.value.code == "setting_invalid"
    assert "power.cap_percent" in error.value.what


def test_a_card_has_a_percent_of_its_own() -> None:
    chosen = choices(power__cap_percent=80, cards__own=["1 power.cap_percent = 50"])
    card = replace(GPU, default_w=300.0)
    assert cap_of(chosen.of(card), card) == 150
    other = replace(card, card=2, identity="GPU-2")
    assert cap_of(chosen.of(other), other) == 240
    with pytest.raises(SettingsError, match="at most 100"):
        choices(cards__own=["1 power.cap_percent = 500"])


def test_duty() -> None:
    assert judge(DUTY) is None
    half = judge(DUTY, duty__percent=50)
    assert half == Verdict(
        Ruling.THROTTLE, Reason("duty", (("percent", 50.0),)), duty_percent=50
    )  # fmt: skip
