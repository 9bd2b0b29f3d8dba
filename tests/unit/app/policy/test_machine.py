"""Changes of rulings, and the age of a freeze."""

from __future__ import annotations

from app.policy.combine import CardRuling
from app.policy.machine import FREEZE_LIMIT_S, PolicyMachine, is_told
from app.policy.rule import Reason, Ruling


def ruling(kind: Ruling, card: int = 0, code: str = "why") -> CardRuling:
    return CardRuling(card, kind, (Reason(code),))


def test_only_changes_come_out() -> None:
    machine = PolicyMachine()
    run, stop = ruling(Ruling.RUN), ruling(Ruling.STOP, 1)
    assert machine.apply((run, stop), 0.0) == (run, stop)
    assert machine.apply((run, stop), 1.0) == ()
    assert machine.apply((ruling(Ruling.RUN, code="other"), stop), 2.0) == (
        ruling(Ruling.RUN, code="other"),
    )


def test_a_long_freeze_becomes_a_stop_with_the_same_reasons() -> None:
    machine = PolicyMachine()
    frozen = ruling(Ruling.FREEZE)
    assert machine.apply((frozen,), 0.0) == (frozen,)
    assert machine.apply((frozen,), FREEZE_LIMIT_S - 0.1) == ()
    assert machine.apply((frozen,), FREEZE_LIMIT_S) == (ruling(Ruling.STOP),)
    assert machine.apply((frozen,), FREEZE_LIMIT_S + 1) == ()


def test_the_age_starts_again_after_a_pause_of_the_cause() -> None:
    machine = PolicyMachine()
    machine.apply((ruling(Ruling.FREEZE),), 0.0)
    machine.apply((ruling(Ruling.RUN),), 20.0)
    machine.apply((ruling(Ruling.FREEZE),), 25.0)
    assert machine.apply((ruling(Ruling.FREEZE),), 54.0) == ()
    assert machine.apply((ruling(Ruling.FREEZE),), 55.0) == (ruling(Ruling.STOP),)


def test_the_end_of_a_freeze_is_known() -> None:
    machine = PolicyMachine()
    assert machine.next_freeze_end_s() is None
    machine.apply((ruling(Ruling.FREEZE),), 5.0)
    assert machine.next_freeze_end_s() == 5.0 + FREEZE_LIMIT_S
    machine.apply((ruling(Ruling.FREEZE),), 40.0)
    assert machine.next_freeze_end_s() is None


def test_people_hear_of_more_than_a_moved_moment() -> None:
    old = CardRuling(0, Ruling.STOP, (Reason("a", (), 5.0),), until_s=5.0)
    assert is_told(None, old)
    assert not is_told(old, CardRuling(0, Ruling.STOP, (Reason("a", (), 9.0),), until_s=9.0))
    assert is_told(old, CardRuling(0, Ruling.STOP, (Reason("b", (), 5.0),), until_s=5.0))
