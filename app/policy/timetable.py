"""Weekly hours: spans in local time, whether a moment lies in one, and when that changes.

Owns: the form of a span (`mon-fri 22:00-07:00`) and the arithmetic. Must not: read a clock or a
zone file: both come in.

A moment lies in a span when a clock on the wall shows a time in it. So an hour that comes twice
(the end of summer time) counts twice, and one that is skipped never is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final

__all__ = ["fault", "is_within", "next_change_s", "parse"]

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES
HORIZON_DAYS: Final = 8

_SPAN: Final = re.compile(r"([a-z,-]{3,40}) ([0-2]\d):([0-5]\d)-([0-2]\d):([0-5]\d)", re.ASCII)
_FORM: Final = 'write it like "mon-fri 22:00-07:00", "sat,sun 00:00-24:00" or "daily 08:00-20:00"'

Minutes = tuple[int, int]
"""From and to, in minutes since Monday 00:00; `to` is larger and may reach into the next week."""


def fault(text: str) -> str:
    """Why a text is no span; empty when it is one."""
    found = _SPAN.fullmatch(text)
    if found is None:
        return _FORM
    if not _days(found[1]):
        return f"{found[1]} names no days; {_FORM}"
    begin, end = _minutes(found[2], found[3]), _minutes(found[4], found[5])
    if begin >= DAY_MINUTES or end > DAY_MINUTES:
        return "a day ends at 24:00"
    return "it must not begin when it ends" if begin == end else ""


@lru_cache(maxsize=256)
def parse(text: str) -> tuple[Minutes, ...]:
    """A checked span as one pair a day.

    Raises:
        ValueError: `fault` of it is not empty.
    """
    found = _SPAN.fullmatch(text)
    if found is None or fault(text):
        raise ValueError(fault(text))
    begin, end = _minutes(found[2], found[3]), _minutes(found[4], found[5])
    length = end - begin if end > begin else DAY_MINUTES - begin + end
    return tuple(
        (day * DAY_MINUTES + begin, day * DAY_MINUTES + begin + length) for day in _days(found[1])
    )


def is_within(spans: Sequence[str], moment_s: float, zone: tzinfo) -> bool:
    """True when the moment (Unix seconds) lies in one of the spans."""
    local = datetime.fromtimestamp(moment_s, zone)
    minute = (local.weekday() * 24 + local.hour) * 60 + local.minute
    return any(
        begin <= minute < end or begin <= minute + WEEK_MINUTES < end
        for text in spans
        for begin, end in parse(text)
    )


def next_change_s(spans: Sequence[str], moment_s: float, zone: tzinfo) -> float | None:
    """The first later moment at which `is_within` differs; None when it stays for a week."""
    now = is_within(spans, moment_s, zone)
    for candidate_s in _candidates_s(spans, moment_s, zone):
        if candidate_s > moment_s and is_within(spans, candidate_s, zone) != now:
            return candidate_s
    return None


def _candidates_s(spans: Sequence[str], moment_s: float, zone: tzinfo) -> list[float]:
    """Every moment of the next week at which the wall clock passes a bound of a span."""
    bounds = {bound % DAY_MINUTES for text in spans for span in parse(text) for bound in span}
    first = datetime.fromtimestamp(moment_s, zone).date()
    found: set[float] = set()
    for number in range(HORIZON_DAYS + 1):
        day = first + timedelta(days=number)
        jump_s = _jump_s(day, zone)
        if jump_s is not None:
            found.add(jump_s)
        for bound in bounds:
            hours, minutes = divmod(bound, 60)
            for fold in (0, 1):
                wall = datetime.combine(day, time(hours, minutes, fold=fold), zone)
                found.add(wall.timestamp())
    return sorted(found)


def _jump_s(day: date, zone: tzinfo) -> float | None:
    """When the clocks are changed on a day; None on other days."""
    low = datetime.combine(day, time(0), zone).timestamp()
    high = datetime.combine(day + timedelta(days=1), time(0), zone).timestamp()
    before = _offset(low, zone)
    if before == _offset(high, zone):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, zone) == before:
            low = middle
        else:
            high = middle
    return high


def _offset(moment_s: float, zone: tzinfo) -> timedelta | None:
    return datetime.fromtimestamp(moment_s, UTC).astimezone(zone).utcoffset()


def _minutes(hours: str, minutes: str) -> int:
    return int(hours) * 60 + int(minutes)


def _days(text: str) -> tuple[int, ...]:
    """Numbers of the days, Monday 0; none for a text that names no days."""
    if text == "daily":
        return tuple(range(7))
    days: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            return ()
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days += [day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)]
    return tuple(sorted(set(days)))
