"""Weeks and spans say the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.policy.timetable import fault, is_within
from app.ui.widgets.hours import WEEK_HOURS, hours_of, is_whole, spans_of

MONDAY = datetime(2026, 11, 30, tzinfo=UTC)


@given(st.lists(st.booleans(), min_size=WEEK_HOURS, max_size=WEEK_HOURS).filter(any))
def test_there_and_back(hours: list[bool]) -> None:
    spans = spans_of(tuple(hours))
    assert hours_of(spans) == tuple(hours)
    assert [fault(text) for text in spans if fault(text)] == []
    assert is_whole(spans)


@given(
    st.lists(st.booleans(), min_size=WEEK_HOURS, max_size=WEEK_HOURS).filter(
        lambda hours: any(hours) and not all(hours)
    )
)
def test_the_policy_reads_what_was_painted(hours: list[bool]) -> None:
    spans = spans_of(tuple(hours))
    for hour in range(0, WEEK_HOURS, 7):
        moment_s = (MONDAY + timedelta(hours=hour, minutes=30)).timestamp()
        assert is_within(spans, moment_s, UTC) == hours[hour]


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        (("daily 08:00-20:00",), ("daily 08:00-20:00",)),
        (("mon-fri 22:00-24:00",), ("mon-fri 22:00-24:00",)),
        (("sat,sun 00:00-24:00",), ("sat,sun 00:00-24:00",)),
        (("daily 00:00-24:00",), ()),
        ((), ()),
    ],
)
def test_usual_weeks_are_said_as_people_do(spans: tuple[str, ...], said: tuple[str, ...]) -> None:
    assert spans_of(hours_of(spans)) == said


def test_nights_reach_into_the_next_day() -> None:
    week = hours_of(("mon 22:00-07:00",))
    assert [place for place, is_on in enumerate(week) if is_on] == list(range(22, 31))


def test_half_hours_are_not_whole() -> None:
    assert not is_whole(("mon 22:30-07:00",))
    assert hours_of(("mon 22:30-23:30",))[22:24] == (True, True)


def test_no_hour_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="without"):
        spans_of((False,) * WEEK_HOURS)
