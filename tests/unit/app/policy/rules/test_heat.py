"""Heat: limits by part, a margin to go on, and sensors that lie."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.policy.rule import Held, Reason, Ruling, Verdict
from app.policy.rules.heat import FANS, HEAT, is_plausible
from app.policy.snapshot import CardFacts, Sensor
from tests.helpers.situations import GPU, code, facts, judge

HELD = Held(Verdict(Ruling.STOP, Reason("hot")), 0.0, 0.0)


def at(temperature_c: float, part: str = "core") -> CardFacts:
    return replace(GPU, sensors=(Sensor("s", part, temperature_c),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "limit_c"), [("core", 83), ("memory", 95), ("processor", 92), ("disk", 78)]
)
def test_each_part_has_its_limit(part: str, limit_c: int) -> None:
    assert judge(HEAT, card=at(limit_c - 0.5, part)) is None
    assert code(judge(HEAT, card=at(limit_c, part))) == "hot"


def test_it_goes_on_only_when_it_is_cooler_by_the_margin() -> None:
    assert code(judge(HEAT, card=at(76.5), held=HELD)) == "hot"
    assert judge(HEAT, card=at(75.9), held=HELD) is None


def test_the_hottest_against_its_own_limit_is_named() -> None:
    card = replace(GPU, sensors=(Sensor("a", "core", 84.0), Sensor("b", "memory", 99.0)))
    verdict = judge(HEAT, card=card)
    assert verdict is not None
    assert ("sensor", "b") in verdict.reason.fields


@pytest.mark.parametrize("lie", [0.0, -40.0, 255.0, float("nan"), float("inf")])
def test_a_lying_sensor_stops_its_card(lie: float) -> None:
    assert not is_plausible(Sensor("s", "core", lie))
    assert code(judge(HEAT, card=at(lie))) == "sensor_lies"


def test_no_sensor_means_no_limit_and_unknown_means_stop() -> None:
    assert judge(HEAT, card=replace(GPU, sensors=())) is None
    assert code(judge(HEAT, facts(), replace(GPU, sensors=None))) == "sensors_unknown"


def test_fans() -> None:
    fast = replace(GPU, fan_rpm=2000)
    assert judge(FANS, card=fast) is None
    assert code(judge(FANS, card=fast, heat__fan_stop_rpm=1900)) == "fan_fast"
    slower = replace(GPU, fan_rpm=1600)
    assert code(judge(FANS, card=slower, held=HELD, heat__fan_stop_rpm=1900)) == "fan_fast"
    assert judge(FANS, card=replace(GPU, fan_rpm=1500), held=HELD, heat__fan_stop_rpm=1900) is None
