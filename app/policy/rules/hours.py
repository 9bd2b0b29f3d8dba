"""The weekly timetable, with a gentle end, and the hours in which energy is dear."""

from __future__ import annotations

from typing import Final

from app.policy import timetable
from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict

__all__ = ["DEAR", "HOURS"]


def _hours(situation: Situation) -> Verdict | None:
    spans = situation.choices.texts("hours.spans")
    if not spans:
        return None
    now_s, zone = situation.snapshot.now_s, situation.snapshot.zone
    change_s = timetable.next_change_s(spans, now_s, zone)
    if not timetable.is_within(spans, now_s, zone):
        return Verdict(Ruling.STOP, Reason("outside_hours"), change_s)
    if change_s is None:
        return None
    wind_down_s = 60.0 * situation.choices.number("hours.wind_down_minutes")
    fields = (("ends_at_s", change_s),)
    if now_s >= change_s - wind_down_s:
        return Verdict(Ruling.RUN, Reason("hours_end", fields), change_s, is_draining=True)
    return Verdict(Ruling.RUN, Reason("inside_hours", fields), change_s - wind_down_s)


def _dear(situation: Situation) -> Verdict | None:
    spans = situation.choices.texts("price.dear_hours")
    now_s, zone = situation.snapshot.now_s, situation.snapshot.zone
    if not spans:
        return None
    change_s = timetable.next_change_s(spans, now_s, zone)
    if timetable.is_within(spans, now_s, zone):
        return Verdict(Ruling.STOP, Reason("energy_dear"), change_s)
    if change_s is None:
        return None
    wind_down_s = 60.0 * situation.choices.number("hours.wind_down_minutes")
    if now_s >= change_s - wind_down_s:
        reason = Reason("dear_soon", (("begins_at_s", change_s),))
        return Verdict(Ruling.RUN, reason, change_s, is_draining=True)
    return None


HOURS: Final = Rule(
    "hours",
    "Outside the hours that you chose nothing is lent, and shortly before they end no new task"
    " begins.",
    _hours,
)
DEAR: Final = Rule("price", "In the hours in which energy is dear nothing is lent.", _dear)
