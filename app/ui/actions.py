"""What an owner can tell the agent with one click: pause, finish, stop, resume.

Owns: the moments that the choices mean (one hour, until tomorrow), and the requests. Must not: wait
for an answer; what came of it is seen in the items.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from app.control.messages import Answer, Finish, Pause, Quit, Refused, Resume, Stop
from app.ui.link import Link
from gpugoblin.ids import fresh_id

__all__ = ["MORNING_HOUR", "Actions", "tomorrow_s"]

HOUR_S: Final = 3600.0
MORNING_HOUR: Final = 8
"""`Until tomorrow` ends at this hour, local time."""


def tomorrow_s(now_s: float) -> float:
    """The next morning, in Unix seconds: tomorrow's, also when it is before this hour today."""
    morning = datetime.fromtimestamp(now_s).replace(
        hour=MORNING_HOUR, minute=0, second=0, microsecond=0
    )
    return (morning + timedelta(days=1)).timestamp()


class Actions:
    """The owner's words. `cards`: those that are meant; none of them means all.

    Args:
        refused: is told what the agent said no to, in words for people.
    """

    def __init__(self, link: Link, refused: Callable[[str], None]) -> None:
        self._link = link
        self._refused = refused

    def pause_hour(self, *cards: int) -> None:
        self._pause(cards, time.time() + HOUR_S)

    def pause_until_tomorrow(self, *cards: int) -> None:
        self._pause(cards, tomorrow_s(time.time()))

    def pause(self, *cards: int) -> None:
        """Until resumed."""
        self._pause(cards, None)

    def finish(self, *cards: int) -> None:
        """The running task is the last one."""
        request = Finish(self._link.number(), fresh_id("intent"), cards)
        self._link.ask(request, self._answered)

    def stop(self, *cards: int) -> None:
        """Grants are given up as well."""
        request = Stop(self._link.number(), fresh_id("intent"), cards)
        self._link.ask(request, self._answered)

    def resume(self, *cards: int) -> None:
        request = Resume(self._link.number(), fresh_id("intent"), cards)
        self._link.ask(request, self._answered)

    def quit_agent(self) -> None:
        """Ends the agent too."""
        self._link.ask(Quit(self._link.number()))

    def _pause(self, cards: tuple[int, ...], until_s: float | None) -> None:
        request = Pause(self._link.number(), fresh_id("intent"), cards, until_s)
        self._link.ask(request, self._answered)

    def _answered(self, answer: Answer) -> None:
        if isinstance(answer, Refused):
            self._refused(f"{answer.what} {answer.next_step}")
