"""Games, programs that fill the screen, and programs that the owner named."""

from __future__ import annotations

from typing import Final

from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict, unknown

__all__ = ["GAMES"]


def _games(situation: Situation) -> Verdict | None:
    choices, play = situation.choices, situation.snapshot.play
    wants_games, wants_screen = choices.flag("games.stop"), choices.flag("games.full_screen")
    if not (wants_games or wants_screen or choices.texts("games.programs")):
        return None
    if play is None:
        return unknown(situation, "play")
    if play.games and wants_games:
        names = ", ".join(sorted(set(play.games)))
        return Verdict(Ruling.STOP, Reason("game_runs", (("games", names),)))
    if play.listed:
        names = ", ".join(sorted(set(play.listed)))
        return Verdict(Ruling.STOP, Reason("program_runs", (("programs", names),)))
    if play.full_screen and wants_screen:
        return Verdict(Ruling.STOP, Reason("full_screen", (("program", play.full_screen),)))
    return None


GAMES: Final = Rule(
    "games",
    "While a game runs (found by itself: GameMode, Steam, Proton, Lutris, Heroic), a program fills"
    " the screen or a program of your list runs, nothing is lent.",
    _games,
    settle="calm.after_s",
)
