"""What helpers in desktop sessions tell an agent of the system about those sessions.

Owns: the latest word of each helper, until it is too old. Must not: believe a helper about anything
but its own user's desktop. A word can stop lending for everybody, and makes one user's own desktop
known; a desktop whose helper is silent stays unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from app.probes.idle.source import Input

__all__ = ["FRESH_S", "SessionTold", "Sessions"]

FRESH_S: Final = 30.0
"""So long a word holds; helpers speak every ten seconds."""


@dataclass(frozen=True, slots=True)
class SessionTold:
    """The word of one helper.

    Args:
        user: whose process it is, as the kernel says.
        input: of the session; None: it does not know, and `why`.
        play_why: why it does not know what plays; empty when it does.
    """

    user: int
    input: Input | None
    why: str = ""
    games: tuple[str, ...] = ()
    full_screen: str = ""
    play_why: str = ""


@dataclass(slots=True)
class Sessions:
    """The words that hold, by the number of the helper's connection."""

    words: dict[int, SessionTold] = field(default_factory=dict)

    def unseen(self, silent: Iterable[int]) -> int | None:
        """A user of whose desktops in front more are silent to logind than helpers know.

        Args:
            silent: the user of each desktop that no other source speaks for.
        """
        known = Counter(each.user for each in self.words.values() if each.input is not None)
        return next((user for user in (Counter(silent) - known)), None)

    def input(self) -> Input | None:
        """The latest input of all; None where no helper knows anything."""
        told = [each.input for each in self.words.values() if each.input is not None]
        if not told:
            return None
        return Input(
            max(each.last_input_s for each in told),
            any(each.is_active for each in told),
            next((each.awake_for for each in told if each.awake_for), ""),
        )

    def why(self, user: int) -> str:
        """Why the helpers of a user do not know; empty where there is none."""
        return next((each.why for each in self.words.values() if each.user == user), "")

    def games(self) -> tuple[str, ...]:
        """Games of all sessions."""
        return tuple(sorted({name for each in self.words.values() for name in each.games}))

    def full_screen(self) -> str:
        """A program that fills a screen; empty for none."""
        return next((each.full_screen for each in self.words.values() if each.full_screen), "")

    def play_why(self) -> str:
        """Why it is not known what plays in a session; empty when it is."""
        return next((each.play_why for each in self.words.values() if each.play_why), "")
