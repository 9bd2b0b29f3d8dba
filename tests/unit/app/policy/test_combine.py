"""Rulings: the strictest wins, no reason is lost, easing takes time, the owner's word stands."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from app.policy.combine import CardRuling, Memory, combine, decide
from app.policy.intent import Intent
from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict
from tests.helpers.situations import CPU, choices, facts

NOTHING: Memory = MappingProxyType({})

verdicts = st.lists(
    st.builds(
        Verdict,
        st.sampled_from(Ruling),
        st.builds(Reason, st.sampled_from("abcdef")),
        st.none() | st.floats(0, 1e6),
    ),
)


@given(verdicts)
def test_the_strictest_wins_with_all_reasons_that_are_not_run(given: list[Verdict]) -> None:
    result = combine(0, given)
    worst = max((verdict.ruling for verdict in given), default=Ruling.RUN)
    assert result.ruling == worst
    told = [each.reason.code for each in given if each.ruling > Ruling.RUN]
    if told:
        assert sorted(reason.code for reason in result.reasons) == sorted(told)
    assert result.reasons


def test_a_ruling_lasts_as_long_as_its_last_cause_and_run_until_its_first_end() -> None:
    stop = [
        Verdict(Ruling.STOP, Reason(code), until_s) for code, until_s in (("a", 5.0), ("b", 9.0))
    ]
    assert combine(0, stop).until_s == 9.0
    assert combine(0, [*stop, Verdict(Ruling.STOP, Reason("c"))]).until_s is None
    assert combine(0, [*stop, Verdict(Ruling.RUN, Reason("c"))]).until_s == 9.0
    run = [replace(verdict, ruling=Ruling.RUN) for verdict in stop]
    assert combine(0, [*run, Verdict(Ruling.RUN, Reason("c"))]).until_s == 5.0


def test_the_least_duty_holds_and_a_reason_carries_its_own_end() -> None:
    slow = [
        Verdict(Ruling.THROTTLE, Reason("a"), 7.0, duty_percent=50),
        Verdict(Ruling.THROTTLE, Reason("b"), duty_percent=30),
    ]
    result = combine(0, slow)
    assert result.duty_percent == 30
    assert result.reasons == (Reason("a", (), 7.0), Reason("b"))


def decided(intent: Intent, extra: Verdict | None = None) -> CardRuling:
    rules = [Rule("extra", ".", lambda _: extra)]
    return decide(facts(cards=(CPU,)), rules, {0: intent}, choices(), NOTHING)[0][0]


NOW_S = facts().now_s


def test_without_a_word_of_the_owner_cards_are_lent() -> None:
    assert decided(Intent("resume")) == CardRuling(0, Ruling.RUN, (Reason("lending"),))


def test_pause_stops_until_its_time_is_over() -> None:
    pause = decided(Intent("pause", until_s=NOW_S + 500))
    assert (pause.ruling, pause.until_s) == (Ruling.STOP, NOW_S + 500)
    assert pause.reasons == (Reason("owner_paused", (), NOW_S + 500),)
    assert decided(Intent("pause", until_s=NOW_S)).ruling == Ruling.RUN


def test_finish_drains_and_then_stops() -> None:
    finishing = decided(Intent("finish"))
    assert finishing.ruling == Ruling.RUN
    assert finishing.is_draining
    assert Reason("owner_finishing") in finishing.reasons
    finished = decided(Intent("finish", drained=True))
    assert finished.ruling == Ruling.STOP
    assert not finished.is_draining


def test_a_rule_may_stop_what_the_owner_lets_finish() -> None:
    hot = Verdict(Ruling.STOP, Reason("hot"))
    ruling = decided(Intent("finish"), hot)
    assert ruling.ruling == Ruling.STOP
    assert not ruling.is_draining


def test_no_rule_overwrites_the_owner() -> None:
    ruling = decided(Intent("stop"), Verdict(Ruling.RUN, Reason("please")))
    assert ruling.ruling == Ruling.STOP
    assert ruling.reasons == (Reason("owner_stopped"),)


def test_the_owner_is_named_first() -> None:
    ruling = decided(Intent("pause"), Verdict(Ruling.STOP, Reason("hot")))
    assert [reason.code for reason in ruling.reasons] == ["owner_paused", "hot"]


def test_a_cause_that_has_passed_holds_on_for_its_time() -> None:
    said: list[Verdict | None] = []

    def judge(_: Situation) -> Verdict | None:
        return said[-1]

    rules = [Rule("r", ".", judge, settle="calm.after_s")]
    memory: Memory = NOTHING

    def at(second: float, verdict: Verdict | None) -> CardRuling:
        nonlocal memory
        said.append(verdict)
        snapshot = facts(cards=(CPU,), now_s=NOW_S + second, monotonic_s=second)
        found, memory = decide(snapshot, rules, {}, choices(calm__after_s=10), memory)
        return found[0]

    stop = Verdict(Ruling.STOP, Reason("game_runs", (("games", "G"),)))
    assert at(0, stop).ruling == Ruling.STOP
    held = at(3, None)
    assert held.ruling == Ruling.STOP
    assert held.reasons == (
        Reason("was_needed", (("cause", "game_runs"), ("games", "G")), NOW_S + 13),
    )
    assert at(4, None) == held
    assert at(5, stop).reasons[0].code == "game_runs"
    # Nobody looked for a long time, since nothing changed: the game has ended just now.
    assert at(105, None).ruling == Ruling.STOP
    assert at(114.9, None).ruling == Ruling.STOP
    assert at(115, None).ruling == Ruling.RUN
