"""What owners of other programs complained about for years, each as a test named after its thread.

B: BOINC/boinc, F: FoldingAtHome/fah-client-bastet, W: fah-web-client-bastet, I: fah-issues.
Threads about windows, trays and networks are tested where those are; `tests/helpers/complaints.py`
has the whole list.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.control import words
from app.control.messages import CardItem
from app.policy.intent import Intent
from app.policy.rule import Held, Reason, Ruling, Verdict
from app.policy.rules.heat import FANS, HEAT
from app.policy.settings import POLICY
from app.policy.snapshot import ForeignUse, IdleFacts, PlayFacts, PowerFacts, Sensor, Snapshot
from app.probes.idle.merge import Desktop, merge
from app.probes.idle.source import Input
from gpugoblin.units import GIB
from tests.helpers.complaints import COMPLAINTS, Complaint, names_of_tests
from tests.helpers.situations import CPU, FREE, GPU, NOW_S, code, facts, judge, rulings


def runs(snapshot: Snapshot, **values: object) -> list[bool]:
    return [each.ruling is Ruling.RUN for each in rulings(snapshot, **values)]


def test_b1187_films_count_as_somebody() -> None:
    film = facts(idle=IdleFacts(NOW_S - 9000, "x", awake_for="Video"))
    assert runs(film) == [False, False]
    assert runs(film, away__films_count=False) == [True, True]


def test_b5075_processor_and_cards_have_rules_of_their_own() -> None:
    used = replace(FREE, cards=(CPU, replace(GPU, foreign=(ForeignUse("x", GIB),))))
    assert runs(used) == [True, False]


def test_i1218_i945_waiting_for_idle_forever_says_why() -> None:
    silent = merge({"terminals": Input(5.0)}, {"x11": "no display"}, Desktop(is_there=True))
    assert silent.facts is None
    (first, _) = rulings(facts(idle=None, why_unknown={"idle": silent.line}))
    assert first.reasons[0].code == "idle_unknown"
    assert "no display" in str(first.reasons[0].fields)


def test_i1674_a_remote_desktop_is_in_use() -> None:
    remote = merge(
        {"terminals": Input(5.0)}, {}, Desktop(is_there=True, is_remote=True)
    )  # fmt: skip
    assert remote.facts is None or remote.facts.is_active
    told = merge(
        {"terminals": Input(5.0), "logind": Input(9.0)}, {}, Desktop(True, is_remote=True)
    )  # fmt: skip
    assert told.facts is not None
    assert told.facts.is_active


def test_f140_the_words_say_what_the_profile_does() -> None:
    profile = next(setting for setting in POLICY if setting.name == "profile")
    assert "only when nobody uses the machine" in profile.description


def test_f135_f115_b1459_a_word_for_one_card_is_for_that_card() -> None:
    """Also open for eleven years: suspend one card of several."""
    found = rulings(FREE, {1: Intent("pause")})
    assert [each.ruling for each in found] == [Ruling.RUN, Ruling.STOP]


def test_b2633_b4704_one_cards_pause_leaves_the_others_fetching() -> None:
    found = rulings(FREE, {0: Intent("stop")})
    assert found[1].ruling is Ruling.RUN
    assert not found[1].is_draining


def test_f53_w42_finish_is_not_pause() -> None:
    finishing = rulings(FREE, {0: Intent("finish"), 1: Intent("finish")})
    assert all(each.is_draining and each.ruling is Ruling.RUN for each in finishing)


def test_i83_i1407_i1480_i1485_named_programs_and_games_that_nobody_named() -> None:
    assert runs(facts(play=PlayFacts(listed=("blender",)))) == [False, False]
    assert runs(facts(play=PlayFacts(games=("Steam app 620",)))) == [False, False]


def test_b2301_b6053_a_game_keeps_it_off_even_when_nobody_types() -> None:
    game = facts(play=PlayFacts(games=("g",)), idle=IdleFacts(0.0, "x"))
    assert runs(game) == [False, False]
    assert runs(facts(play=PlayFacts(full_screen="mpv"))) == [False, False]


def test_b1612_always_still_obeys_games() -> None:
    assert runs(facts(play=PlayFacts(games=("g",))), profile="always") == [False, False]


def test_b6246_b7104_b1955_it_stops_before_the_machine_does() -> None:
    hot = replace(GPU, sensors=(Sensor("core", "core", 90.0),))
    assert code(judge(HEAT, card=hot)) == "hot"


def test_b1591_b2215_f11_f268_noise_is_a_rule_too() -> None:
    loud = replace(GPU, fan_rpm=2600)
    assert code(judge(FANS, card=loud, heat__fan_stop_rpm=2500)) == "fan_fast"


def test_w53_heat_and_hours_go_together() -> None:
    hot = replace(FREE, cards=(replace(GPU, sensors=(Sensor("c", "core", 84.0),)),))
    (found,) = rulings(hot, profile="nights")
    assert {reason.code for reason in found.reasons} == {"hot", "outside_hours"}


def test_b1451_b799_b3760_f358_a_card_may_work_part_of_the_time() -> None:
    found = rulings(FREE, duty__percent=40)
    assert all(each.ruling is Ruling.THROTTLE and each.duty_percent == 40 for each in found)


def test_b6468_mains_that_are_off_without_a_battery_are_no_battery() -> None:
    assert runs(facts(power=PowerFacts(on_battery=False))) == [True, True]


def test_f448_a_resume_begins_afresh() -> None:
    """An old pause must not shorten the next one: nothing of it is left in the rules."""
    paused = rulings(FREE, {0: Intent("pause", until_s=NOW_S + 5)})
    later = replace(FREE, now_s=NOW_S + 6, monotonic_s=NOW_S + 6)
    assert paused[0].ruling is Ruling.STOP
    assert rulings(later, {0: Intent("pause", until_s=NOW_S + 5)})[0].ruling is Ruling.RUN


def test_i1720_i1529_f246_sleep_is_no_failure() -> None:
    found = rulings(facts(is_asleep=True))
    assert [reason.code for each in found for reason in each.reasons] == ["machine_sleeps"] * 2


def test_b640_is_it_working_has_one_sentence() -> None:
    for each in rulings(FREE):
        item = CardItem(
            "c", each.card, "cpu", "RUN", (), None, False, "ready", "computing", "full", "", 1, 0,
            0, 0.0,
        )  # fmt: skip
        assert words.why(item, NOW_S).count(".") == 1


def test_a_game_that_ended_a_moment_ago_is_not_over_at_once() -> None:
    """HTCondor's and BOINC's hysteresis, in one place for every cause."""
    held = Held(Verdict(Ruling.STOP, Reason("hot")), 0.0, 0.0)
    assert code(judge(HEAT, card=replace(GPU, sensors=(Sensor("c", "core", 78.0),)), held=held))


@pytest.mark.parametrize("row", COMPLAINTS, ids=lambda row: row.threads.replace(" ", "_"))
def test_every_row_has_a_test_that_is_named_after_its_threads(row: Complaint) -> None:
    if row.lacking:
        assert not row.tests
        return
    words: set[str] = set()
    for test in row.tests:
        file, _, name = test.partition(":")
        assert name in names_of_tests(file)
        words |= set(name.split("_"))
    assert {thread.replace("#", "").lower() for thread in row.threads.split()} <= words
