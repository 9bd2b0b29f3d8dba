"""Away: unknown is in use, a film is in use, a locked screen is away."""

from __future__ import annotations

from app.policy.rule import Ruling
from app.policy.rules.away import AWAY
from app.policy.snapshot import IdleFacts
from tests.helpers.situations import NOW_S, code, facts, judge


def idle(ago_s: float, **fields: object) -> IdleFacts:
    return IdleFacts(NOW_S - ago_s, "test", **fields)  # type: ignore[arg-type]


def test_unknown_never_lends() -> None:
    verdict = judge(AWAY, facts(idle=None, why_unknown={"idle": "the bus hangs"}))
    assert code(verdict) == "idle_unknown"
    assert verdict is not None
    assert (verdict.ruling, verdict.reason.fields) == (Ruling.STOP, (("why", "the bus hangs"),))


def test_the_minutes_of_the_owner_decide() -> None:
    assert code(judge(AWAY, facts(idle=idle(299)))) == "in_use"
    assert code(judge(AWAY, facts(idle=idle(300)))) == "away"
    assert code(judge(AWAY, facts(idle=idle(300)), away__after_minutes=6)) == "in_use"
    in_use = judge(AWAY, facts(idle=idle(100)))
    assert in_use is not None
    assert in_use.until_s == NOW_S + 200


def test_while_input_comes_no_end_is_known() -> None:
    in_use = judge(AWAY, facts(idle=idle(4000, is_active=True)))
    assert in_use is not None
    assert (in_use.reason.code, in_use.until_s) == ("in_use", None)


def test_a_film_is_somebody_unless_the_screen_is_locked_or_the_owner_says_no() -> None:
    film = facts(idle=idle(4000, awake_for="Video"))
    assert code(judge(AWAY, film)) == "kept_awake"
    assert code(judge(AWAY, film, away__films_count=False)) == "away"
    locked = facts(idle=idle(4000, awake_for="Video", locked_since_s=NOW_S - 90))
    assert code(judge(AWAY, locked)) == "away"


def test_a_locked_screen_is_away_sooner() -> None:
    locked = idle(70, locked_since_s=NOW_S - 60)
    assert code(judge(AWAY, facts(idle=locked))) == "away"
    assert code(judge(AWAY, facts(idle=locked), away__locked_minutes=0)) == "in_use"


def test_slow_and_go_on() -> None:
    used = facts(idle=idle(1))
    slow = judge(AWAY, used, profile="always")
    assert slow is not None
    assert (slow.ruling, slow.duty_percent) == (Ruling.THROTTLE, 30)
    assert judge(AWAY, used, profile="custom", away__when_present="go_on") is None


def test_a_machine_that_nobody_ever_used_is_lent() -> None:
    server = facts(idle=IdleFacts(0.0, "no terminal is open"))
    assert code(judge(AWAY, server)) == "never_used"
