"""The order of rulings, and what an unknown fact says."""

from __future__ import annotations

from app.policy.rule import Held, Reason, Ruling, Situation, Verdict, unknown
from tests.helpers.situations import CPU, choices, facts


def test_stricter_is_larger() -> None:
    assert Ruling.RUN < Ruling.THROTTLE < Ruling.FREEZE < Ruling.STOP


def test_unknown_says_why_it_is_unknown() -> None:
    situation = Situation(facts(why_unknown={"power": "no answer"}), CPU, choices())
    assert unknown(situation, "power").reason.fields == (("why", "no answer"),)
    assert "not been looked at" in str(unknown(situation, "idle").reason.fields)


def test_stopped_is_a_matter_of_the_rule_itself() -> None:
    held = Held(Verdict(Ruling.FREEZE, Reason("x")), 0.0, 0.0)
    assert not Situation(facts(), CPU, choices(), held).is_stopped
    assert not Situation(facts(), CPU, choices()).is_stopped
