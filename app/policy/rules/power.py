"""Battery, emergency supply, saving power, the lid; what a card may draw; how much of the time."""

from __future__ import annotations

from typing import Final

from app.policy.choices import Choices
from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict, unknown
from app.policy.snapshot import CardFacts

__all__ = ["BATTERY", "DUTY", "POWER_CAP", "cap_of"]

CAPPED_PERCENT: Final = 50
MARGIN: Final = 0.9


def _battery(situation: Situation) -> Verdict | None:
    choices, power = situation.choices, situation.snapshot.power
    names = ("battery.stop", "battery.saver_stops", "battery.lid_stops")
    if not any(choices.flag(name) for name in names):
        return None
    if power is None:
        return unknown(situation, "power")
    if power.on_ups and choices.flag("battery.stop"):
        return Verdict(Ruling.STOP, Reason("on_ups"))
    if power.on_battery and choices.flag("battery.stop"):
        return Verdict(Ruling.STOP, Reason("on_battery"))
    if power.is_saving and choices.flag("battery.saver_stops"):
        return Verdict(Ruling.STOP, Reason("saving_power"))
    if power.lid_closed and choices.flag("battery.lid_stops"):
        return Verdict(Ruling.STOP, Reason("lid_closed"))
    return None


def cap_of(choices: Choices, card: CardFacts) -> int:
    """Watts that a card may draw at most by its owner's choices; 0 for no limit.

    Of `power.cap_w` and `power.cap_percent` the lower holds. The second says nothing where the card
    does not tell what its maker set.
    """
    caps = [choices.number("power.cap_w")]
    if card.default_w is not None:
        caps.append(card.default_w * choices.number("power.cap_percent") / 100.0)
    return max(1, round(min(chosen))) if (chosen := [each for each in caps if each > 0]) else 0


def _power_cap(situation: Situation) -> Verdict | None:
    cap_w, power_w = cap_of(situation.choices, situation.card), situation.card.power_w
    if not cap_w or power_w is None:
        return None
    limit_w = situation.card.limit_w
    if limit_w is not None and limit_w <= cap_w:
        return None  # its driver sees to it, and readings sway about the limit
    is_capped = situation.held is not None and situation.held.verdict.ruling is Ruling.THROTTLE
    if power_w <= cap_w * (MARGIN if is_capped else 1.0):
        return None
    reason = Reason("power_capped", (("cap_w", cap_w),))
    return Verdict(Ruling.THROTTLE, reason, duty_percent=CAPPED_PERCENT)


def _duty(situation: Situation) -> Verdict | None:
    percent = round(situation.choices.number("duty.percent"))
    if percent >= 100:
        return None
    reason = Reason("duty", (("percent", float(percent)),))
    return Verdict(Ruling.THROTTLE, reason, duty_percent=percent)


BATTERY: Final = Rule(
    "battery",
    "On battery or on an emergency supply, or while the desktop saves power, nothing is lent.",
    _battery,
    settle="calm.after_s",
)
POWER_CAP: Final = Rule(
    "power_cap",
    "A card that draws more than `power.cap_w` or `power.cap_percent` allow computes half of the"
    " time until it draws less, where its driver's own limit cannot be set for as long as it"
    " lends.",
    _power_cap,
    settle="heat.resume_after_s",
)
DUTY: Final = Rule(
    "duty", "A card computes `duty.percent` of the time and rests for the others.", _duty
)
