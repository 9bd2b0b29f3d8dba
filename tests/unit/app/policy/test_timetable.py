"""Weekly hours: forms, midnight, and the two nights on which the clocks change."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.policy.timetable import fault, is_within, next_change_s, parse

BERLIN = ZoneInfo("Europe/Berlin")


def at(day: str, hour: str, fold: int = 0) -> float:
    local = datetime.fromisoformat(f"{day}T{hour}").replace(tzinfo=BERLIN, fold=fold)
    return local.timestamp()


@pytest.mark.parametrize(
    "text",
    ["", "mon", "mon 8-9", "mon 08:00-24:01", "foo 08:00-09:00", "mon 24:00-08:00",
     "mon 08:60-09:00",
     "mon 08:00-08:00", "mon  08:00-09:00", "mon,, 08:00-09:00", "MON 08:00-09:00",
     "mon 25:00-26:00", "m" * 10_000],
)  # fmt: skip
def test_what_is_no_span_says_why(text: str) -> None:
    assert fault(text)
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_days_and_midnight() -> None:
    assert parse("mon 08:00-09:30") == ((480, 570),)
    assert parse("sun,mon 22:00-02:00") == ((1320, 1560), (6 * 1440 + 1320, 7 * 1440 + 120))
    assert len(parse("fri-mon 00:00-24:00")) == 4
    assert len(parse("daily 00:00-24:00")) == 7


def test_a_span_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    spans = ["fri 22:00-07:00"]
    assert is_within(spans, at("2026-01-02", "23:00"), BERLIN)  # a Friday
    assert is_within(spans, at("2026-01-03", "06:59"), BERLIN)
    assert not is_within(spans, at("2026-01-03", "07:00"), BERLIN)
    assert not is_within(spans, at("2026-01-02", "06:00"), BERLIN)
    assert is_within(["sun 22:00-07:00"], at("2026-01-05", "03:00"), BERLIN)  # a Monday


def test_several_spans_a_day() -> None:
    spans = ["daily 06:00-08:00", "daily 20:00-22:00"]
    noon = at("2026-01-01", "12:00")
    assert not is_within(spans, noon, BERLIN)
    assert next_change_s(spans, noon, BERLIN) == at("2026-01-01", "20:00")


def test_always_and_never_do_not_change() -> None:
    now_s = at("2026-01-01", "12:00")
    assert next_change_s(["daily 00:00-24:00"], now_s, BERLIN) is None
    assert next_change_s([], now_s, BERLIN) is None


def test_a_night_of_seven_hours_and_one_of_nine() -> None:
    spans = ["daily 22:00-06:00"]
    spring, autumn = at("2026-03-28", "22:00"), at("2026-10-24", "22:00")
    assert next_change_s(spans, spring, BERLIN) == spring + 7 * 3600
    assert next_change_s(spans, autumn, BERLIN) == autumn + 9 * 3600


def test_a_bound_in_the_hour_that_is_skipped() -> None:
    # 02:00 to 03:00 does not exist: a span until 02:30 ends when the clocks jump.
    before = at("2026-03-29", "01:30")
    assert next_change_s(["daily 01:00-02:30"], before, BERLIN) == before + 1800
    assert next_change_s(["daily 02:30-04:00"], before, BERLIN) == before + 1800


def test_an_hour_that_comes_twice_counts_twice() -> None:
    spans = ["daily 02:15-02:45"]
    first, second = at("2026-10-25", "02:15"), at("2026-10-25", "02:15", fold=1)
    assert second == first + 3600
    assert is_within(spans, first, BERLIN)
    assert is_within(spans, second, BERLIN)
    assert next_change_s(spans, first + 1800, BERLIN) == second


ZONES = [BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("UTC")]
TIMES = st.tuples(st.integers(0, 23), st.sampled_from([0, 15, 30, 45]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["mon", "sat,sun", "tue-fri", "daily"]), TIMES, TIMES),
             min_size=1, max_size=3),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),
    st.sampled_from(ZONES),
)  # fmt: skip
def test_the_next_change_is_the_first_of_all_minutes(
    made: list[tuple[str, tuple[int, int], tuple[int, int]]], when: datetime, zone: ZoneInfo
) -> None:
    spans = [f"{days} {b[0]:02}:{b[1]:02}-{e[0]:02}:{e[1]:02}" for days, b, e in made if b != e]
    now_s = float(int(when.replace(tzinfo=zone).timestamp()) // 900 * 900)
    inside = is_within(spans, now_s, zone)
    found = next_change_s(spans, now_s, zone)
    step = timedelta(minutes=15).total_seconds()
    moments = (now_s + step * number for number in range(1, 7 * 96))
    expected = next((s for s in moments if is_within(spans, s, zone) != inside), None)
    if expected is not None or found is None:
        assert found == expected
