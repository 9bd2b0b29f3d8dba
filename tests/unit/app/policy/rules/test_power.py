"""Where power comes from and how much of it is used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.policy.rule import Held, Reason, Ruling, Verdict
from app.policy.rules.power import BATTERY, DUTY, POWER_CAP
from app.policy.snapshot import PowerFacts
from tests.helpers.situations import GPU, code, facts, judge


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


def test_duty() -> None:
    assert judge(DUTY) is None
    half = judge(DUTY, duty__percent=50)
    assert half == Verdict(
        Ruling.THROTTLE, Reason("duty", (("percent", 50.0),)), duty_percent=50
    )  # fmt: skip
