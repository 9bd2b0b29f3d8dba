"""Helpers of desktop sessions: whose desktop they make known, and what they may stop."""

from __future__ import annotations

from app.probes.idle.sessions import Sessions, SessionTold
from app.probes.idle.source import Input


def test_a_helper_speaks_for_one_desktop_of_its_own_user() -> None:
    sessions = Sessions({1: SessionTold(1000, Input(5.0))})
    assert sessions.unseen([1000]) is None
    assert sessions.unseen([1000, 1000]) == 1000  # two screens in front, one helper
    assert sessions.unseen([1001]) == 1001
    assert sessions.unseen([]) is None


def test_one_that_does_not_know_makes_nothing_known() -> None:
    sessions = Sessions({1: SessionTold(1000, None, why="no source")})
    assert sessions.unseen([1000]) == 1000
    assert sessions.input() is None
    assert sessions.why(1000) == "no source"
    assert sessions.why(1001) == ""


def test_the_latest_input_and_any_activity_count() -> None:
    sessions = Sessions({
        1: SessionTold(1000, Input(5.0, awake_for="Player")),
        2: SessionTold(1001, Input(3.0, is_active=True)),
    })  # fmt: skip
    assert sessions.input() == Input(5.0, True, "Player")


def test_games_and_full_screens_of_all_sessions() -> None:
    sessions = Sessions({
        1: SessionTold(1000, None, games=("b", "a")),
        2: SessionTold(1001, None, games=("a",), full_screen="mpv", play_why="GameMode hangs"),
    })  # fmt: skip
    assert sessions.games() == ("a", "b")
    assert (sessions.full_screen(), sessions.play_why()) == ("mpv", "GameMode hangs")
