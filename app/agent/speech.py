"""The agent's one line per change, for people. Owns the last explanations; decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.agent.view import reason_items
from app.control import words
from app.policy.combine import CardRuling
from app.policy.rule import Ruling
from gpugoblin.clock import Clock
from gpugoblin.errors import GoblinError

__all__ = ["Speech"]

_RULING_LINES: Final = {
    Ruling.RUN: "card_lends",
    Ruling.THROTTLE: "card_throttles",
    Ruling.FREEZE: "card_freezes",
    Ruling.STOP: "card_stops",
}


class Speech:
    """Turns codes into lines.

    Args:
        write: takes one line without its end.
    """

    def __init__(self, write: Callable[[str], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._whys: dict[str, str] = {}

    def explain(self, error: GoblinError) -> None:
        """Remembers the words and the fix of an error, for the line that names its code."""
        self._whys[error.code] = f"{error.what} {error.next_step}".strip()

    def say(self, code: str, /, **fields: object) -> None:
        """Writes one line. A field `code` is told in words, as far as they are known."""
        if "why" not in fields:
            cause = str(fields.get("code", ""))
            fields["why"] = self._whys.get(cause, cause.replace("_", " "))
        time = words.clock_time(self._clock.wall_s())
        self._write(f"{time}  {words.line(code, fields)}")

    def say_ruling(self, ruling: CardRuling) -> None:
        """What holds for a card now, and all the reasons."""
        code = "card_finishes" if ruling.is_draining else _RULING_LINES[ruling.ruling]
        until = "" if ruling.until_s is None else f", until {words.clock_time(ruling.until_s)}"
        because = words.reasons(reason_items(ruling))
        self.say(code, card=ruling.card, because=because, until=until)
