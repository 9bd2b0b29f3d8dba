"""Nobody uses the machine: no input for some minutes, or the screen is locked.

Unknown is not away: where no source tells, nothing is lent.
"""

from __future__ import annotations

from typing import Final

from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict, unknown
from app.policy.snapshot import IdleFacts

__all__ = ["AWAY"]


def _away(situation: Situation) -> Verdict | None:
    choices = situation.choices
    when_present = choices.text("away.when_present")
    if when_present == "go_on":
        return None
    idle = situation.snapshot.idle
    if idle is None:
        return unknown(situation, "idle")
    now_s = situation.snapshot.now_s
    if idle.awake_for and choices.flag("away.films_count") and idle.locked_since_s is None:
        reason = Reason("kept_awake", (("program", idle.awake_for),))
        return _present(situation, reason, None)
    away_s = _away_at_s(situation, idle)
    if away_s is not None and now_s >= away_s:
        fields: tuple[tuple[str, float | str], ...] = (("source", idle.source),)
        if idle.last_input_s > 0:
            return Verdict(Ruling.RUN, Reason("away", (("last_at_s", idle.last_input_s), *fields)))
        return Verdict(Ruling.RUN, Reason("never_used", fields))
    return _present(situation, Reason("in_use", (("source", idle.source),)), away_s)


def _away_at_s(situation: Situation, idle: IdleFacts) -> float | None:
    """When the owner counts as away if nothing more comes; None while input comes."""
    choices = situation.choices
    moments: list[float] = []
    if not idle.is_active:
        moments.append(idle.last_input_s + 60.0 * choices.number("away.after_minutes"))
    locked_minutes = choices.number("away.locked_minutes")
    if idle.locked_since_s is not None and locked_minutes:
        moments.append(idle.locked_since_s + 60.0 * locked_minutes)
    return min(moments, default=None)


def _present(situation: Situation, reason: Reason, until_s: float | None) -> Verdict:
    if situation.choices.text("away.when_present") == "slow":
        percent = round(situation.choices.number("duty.present_percent"))
        return Verdict(Ruling.THROTTLE, reason, until_s, duty_percent=percent)
    return Verdict(Ruling.STOP, reason, until_s)


AWAY: Final = Rule(
    "away",
    "While somebody uses the machine (keyboard, mouse, a terminal, a remote session, a film) it is"
    " not lent, or slowly; `profile` and `away.when_present` say which.",
    _away,
)
