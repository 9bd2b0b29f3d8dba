"""Hours: outside nothing, inside all, and a gentle end."""

from __future__ import annotations

from app.policy.rule import Ruling
from app.policy.rules.hours import DEAR, HOURS
from tests.helpers.situations import CPU, GPU, NOW_S, code, judge

CUSTOM = {"profile": "custom"}


def test_no_hours_are_all_hours() -> None:
    assert judge(HOURS) is None
    assert judge(DEAR) is None


def test_outside_it_says_when_they_begin() -> None:
    verdict = judge(HOURS, hours__spans=["daily 22:00-07:00"], **CUSTOM)
    assert verdict is not None
    assert (code(verdict), verdict.until_s) == ("outside_hours", NOW_S + 10 * 3600)


def test_inside_and_the_last_minutes() -> None:
    inside = judge(HOURS, hours__spans=["daily 10:00-14:00"], **CUSTOM)
    assert inside is not None
    assert (code(inside), inside.is_draining) == ("inside_hours", False)
    assert inside.until_s == NOW_S + 7200 - 300
    ending = judge(HOURS, hours__spans=["daily 10:00-12:04"], **CUSTOM)
    assert ending is not None
    assert (code(ending), ending.is_draining, ending.until_s) == ("hours_end", True, NOW_S + 240)


def test_the_profile_decides_over_the_setting_and_a_card_over_the_profile() -> None:
    assert code(judge(HOURS, profile="nights", hours__spans=["daily 00:00-24:00"])) == (
        "outside_hours"
    )
    own = ['1 hours.spans = ["daily 22:00-23:00"]']
    assert judge(HOURS, card=CPU, cards__own=own) is None
    assert code(judge(HOURS, card=GPU, cards__own=own)) == "outside_hours"


def test_dear_hours_stop_and_are_told_before() -> None:
    dear = judge(DEAR, price__dear_hours=["thu 11:00-13:00"])
    assert dear is not None
    assert (dear.ruling, code(dear), dear.until_s) == (Ruling.STOP, "energy_dear", NOW_S + 3600)
    soon = judge(DEAR, price__dear_hours=["thu 12:03-13:00"])
    assert soon is not None
    assert (code(soon), soon.is_draining) == ("dear_soon", True)
    assert judge(DEAR, price__dear_hours=["thu 14:00-15:00"]) is None
