"""Games, full screens and the owner's list."""

from __future__ import annotations

from app.policy.rules.games import GAMES
from app.policy.snapshot import PlayFacts
from tests.helpers.situations import code, facts, judge


def test_games_stop() -> None:
    verdict = judge(GAMES, facts(play=PlayFacts(games=("B", "A", "B"))))
    assert verdict is not None
    assert (code(verdict), verdict.reason.fields) == ("game_runs", (("games", "A, B"),))
    assert judge(GAMES, facts(play=PlayFacts(games=("A",))), games__stop=False) is None


def test_a_full_screen_and_the_list_stop() -> None:
    assert code(judge(GAMES, facts(play=PlayFacts(full_screen="x")))) == "full_screen"
    assert code(judge(GAMES, facts(play=PlayFacts(listed=("x",))))) == "program_runs"
    off = {"games__full_screen": False}
    assert judge(GAMES, facts(play=PlayFacts(full_screen="x")), **off) is None


def test_unknown_stops_unless_nobody_asks() -> None:
    assert code(judge(GAMES, facts(play=None))) == "play_unknown"
    off = {"games__full_screen": False, "games__stop": False}
    assert judge(GAMES, facts(play=None), **off) is None
