"""Rulings: the strictest wins, no reason is lost, the owner's word stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.policy.combine import CardRuling, combine, decide
from app.policy.intent import Intent
from app.policy.rule import Reason, Ruling, Verdict
from app.policy.rules import RULES
from app.policy.snapshot import CardFacts, Snapshot

CARD = CardFacts(0, "cpu")
NOW = Snapshot(1000.0, (CARD,))

verdicts = st.lists(
    st.builds(
        Verdict,
        st.sampled_from(Ruling),
        st.builds(Reason, st.sampled_from("abcdef")),
        st.none() | st.floats(0, 1e6),
    ),
    min_size=1,
)


@given(verdicts)
def test_the_strictest_wins_with_all_its_reasons(given_verdicts: list[Verdict]) -> None:
    result = combine(0, given_verdicts)
    worst = max(verdict.ruling for verdict in given_verdicts)
    assert result.ruling == worst
    assert list(result.reasons) == [
        verdict.reason for verdict in given_verdicts if verdict.ruling == worst
    ]


def test_a_ruling_lasts_as_long_as_its_last_cause() -> None:
    stop = [
        Verdict(Ruling.STOP, Reason(code), until_s) for code, until_s in (("a", 5.0), ("b", 9.0))
    ]
    assert combine(0, stop).until_s == 9.0
    assert combine(0, [*stop, Verdict(Ruling.STOP, Reason("c"))]).until_s is None
    assert combine(0, [*stop, Verdict(Ruling.RUN, Reason("c"))]).until_s == 9.0


def decided(intent: Intent, extra: Verdict | None = None) -> CardRuling:
    rules = [*RULES, *([lambda snapshot, card: extra] if extra else [])]
    return decide(NOW, rules, {0: intent})[0]


def test_without_a_word_of_the_owner_cards_are_lent() -> None:
    assert decide(NOW, RULES, {})[0] == CardRuling(0, Ruling.RUN, (Reason("lending"),))


def test_pause_stops_until_its_time_is_over() -> None:
    pause = decided(Intent("pause", until_s=1500.0))
    assert (pause.ruling, pause.until_s) == (Ruling.STOP, 1500.0)
    assert pause.reasons == (Reason("owner_paused"),)
    assert decided(Intent("pause", until_s=1000.0)).ruling == Ruling.RUN


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
