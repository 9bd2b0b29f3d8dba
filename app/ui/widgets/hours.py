"""A week as hours of 0 or 1, to and from the spans of the settings: pure, no Qt.

Owns: the translation. What cannot be said in whole hours is kept as it was written, so that a
window never makes an owner's half hours whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.policy.timetable import DAY_MINUTES, DAYS, WEEK_MINUTES, parse

__all__ = ["DAY_HOURS", "WEEK_HOURS", "Week", "hours_of", "is_whole", "spans_of"]

DAY_HOURS: Final = 24
WEEK_HOURS: Final = 7 * DAY_HOURS

Week = tuple[bool, ...]
"""168 hours from Monday 00:00; True where lending is allowed."""


def is_whole(spans: Sequence[str]) -> bool:
    """Whether the spans begin and end at whole hours."""
    return all(bound % 60 == 0 for text in spans for pair in parse(text) for bound in pair)


def hours_of(spans: Sequence[str]) -> Week:
    """The hours that lie in the spans, in part at least; no spans allow every hour.

    Raises:
        ValueError: a text is no span.
    """
    if not spans:
        return (True,) * WEEK_HOURS
    week = [False] * WEEK_HOURS
    for text in spans:
        for begin, end in parse(text):
            for hour in range(begin // 60, -(-end // 60)):
                week[hour % WEEK_HOURS] = True
    return tuple(week)


def spans_of(week: Week) -> tuple[str, ...]:
    """Spans for these hours, the same days together; none when every hour is allowed.

    Raises:
        ValueError: no hour is allowed, which spans cannot say: stop lending instead.
    """
    if all(week):
        return ()
    if not any(week):
        raise ValueError("a week without hours")
    runs: dict[tuple[int, int], list[int]] = {}
    for day in range(7):
        for begin, end in _runs(week[day * DAY_HOURS : (day + 1) * DAY_HOURS]):
            runs.setdefault((begin, end), []).append(day)
    return tuple(
        f"{_days(days)} {begin:02}:00-{end:02}:00" for (begin, end), days in sorted(runs.items())
    )


def _runs(day: Sequence[bool]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    begin: int | None = None
    for hour, is_on in enumerate([*day, False]):
        if is_on and begin is None:
            begin = hour
        elif not is_on and begin is not None:
            found.append((begin, hour))
            begin = None
    return found


def _days(days: list[int]) -> str:
    if len(days) == 7:
        return "daily"
    parts: list[str] = []
    place = 0
    while place < len(days):
        last = place
        while last + 1 < len(days) and days[last + 1] == days[last] + 1:
            last += 1
        if last - place >= 2:
            parts.append(f"{DAYS[days[place]]}-{DAYS[days[last]]}")
        else:
            parts += [DAYS[day] for day in days[place : last + 1]]
        place = last + 1
    return ",".join(parts)


if DAY_MINUTES != 60 * DAY_HOURS or WEEK_MINUTES != 60 * WEEK_HOURS:
    raise LookupError("a day has 24 hours here and in the policy")
