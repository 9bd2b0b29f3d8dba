"""What is said once, plainly: the sentences, and that they are not repeated.

Owns: those texts and who has heard them (a session). Must not: ask anything; these are notices.
"""

from __future__ import annotations

import sys
from typing import Final, TextIO

__all__ = ["GRID", "NO_SANDBOX", "Notices"]

GRID: Final = (
    "gpugoblin: this job leaves the lab. The people whose cards compute it can see the numbers of "
    "the tasks that they get: without names and without saying what they are, but not encrypted "
    "while they compute, and text as tokens. Confidential, personal or medical data must not be "
    "sent."
)
OTHER_LIMIT: Final = (
    "gpugoblin: the node of this machine runs already, with another limit of memory, and keeps it. "
    "`stop_node()` of your session ends it; the next connection starts it with the new limit."
)
NO_SANDBOX: Final = (
    "gpugoblin: this machine has no sandbox for engines, so your own jobs run in a plain child "
    "process of yours. Nobody else's jobs are ever taken here. `gpugoblin node doctor` says what "
    "is missing."
)


class Notices:
    """Says each text once, to standard error (which notebooks show)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._said: set[str] = set()

    def say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def heard(self, text: str) -> bool:
        return text in self._said

    def say(self, text: str) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        print(text, file=stream, flush=True)
