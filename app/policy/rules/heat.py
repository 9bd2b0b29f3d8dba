"""Heat: each part has a limit, and must be cooler by a margin, for a while, to go on.

A reading that cannot be true stops what it belongs to: it would be wrong to compute blindly. A card
without a sensor has no limit, which the doctor says.
"""

from __future__ import annotations

import math
from typing import Final

from app.policy.choices import Choices
from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict, unknown
from app.policy.snapshot import Sensor

__all__ = ["FANS", "HEAT", "heat_limits", "is_plausible"]

LEAST_C: Final = 1.0
MOST_C: Final = 150.0
FAN_MARGIN: Final = 0.8

_LIMITS: Final = {
    "core": "heat.card_stop_c",
    "memory": "heat.memory_stop_c",
    "processor": "heat.processor_stop_c",
    "disk": "heat.disk_stop_c",
}


def _heat(situation: Situation) -> Verdict | None:
    sensors = situation.card.sensors
    if sensors is None:
        return unknown(situation, "sensors")
    for sensor in sensors:
        if not is_plausible(sensor):
            lie = (("reading_c", str(sensor.temperature_c)), ("sensor", sensor.label))
            return Verdict(Ruling.STOP, Reason("sensor_lies", lie))
    margin_c = situation.choices.number("heat.resume_below_c") if situation.is_stopped else 0.0
    hottest = max(
        ((sensor, _limit_c(situation, sensor)) for sensor in sensors),
        key=lambda each: each[0].temperature_c - each[1],
        default=None,
    )
    if hottest is None or hottest[0].temperature_c < hottest[1] - margin_c:
        return None
    sensor, limit_c = hottest
    resume_c = limit_c - situation.choices.number("heat.resume_below_c")
    # Without the reading itself: it changes all the time, and `status` shows it.
    fields = (("limit_c", limit_c), ("resume_c", resume_c), ("sensor", sensor.label))
    return Verdict(Ruling.STOP, Reason("hot", fields))


def is_plausible(sensor: Sensor) -> bool:
    """False for what broken sensors say: 0, 255, negative, no number."""
    temperature_c = sensor.temperature_c
    return math.isfinite(temperature_c) and LEAST_C <= temperature_c <= MOST_C


def _limit_c(situation: Situation, sensor: Sensor) -> float:
    return situation.choices.number(_LIMITS[sensor.part])


def heat_limits(choices: Choices) -> dict[str, float]:
    """At which temperature each part stops, by the part's name."""
    return {part: choices.number(name) for part, name in _LIMITS.items()}


def _fans(situation: Situation) -> Verdict | None:
    limit_rpm = situation.choices.number("heat.fan_stop_rpm")
    fan_rpm = situation.card.fan_rpm
    if not limit_rpm or fan_rpm is None:
        return None
    if fan_rpm < limit_rpm * (FAN_MARGIN if situation.is_stopped else 1.0):
        return None
    return Verdict(Ruling.STOP, Reason("fan_fast", (("limit_rpm", limit_rpm),)))


HEAT: Final = Rule(
    "heat",
    "A card (or the processor) that is too hot stops, and goes on when it has been cooler by"
    " `heat.resume_below_c` for `heat.resume_after_s`; a sensor that says nonsense stops it too.",
    _heat,
    settle="heat.resume_after_s",
)
FANS: Final = Rule(
    "fans",
    "A card whose fan turns faster than you like stops.",
    _fans,
    settle="heat.resume_after_s",
)
