"""The agent's lines for people: one a change, and one a minute for what happens all the time.

Owns: the last explanations, and the count of results since the last line. Decides nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from app.agent.view import reason_items
from app.control import words
from app.control.messages import LogLine, NoticeItem
from app.control.redact import redacted
from app.policy.combine import CardRuling
from app.policy.machine import is_told
from app.policy.rule import Ruling
from gpugoblin.clock import Clock
from gpugoblin.errors import GoblinError
from gpugoblin.units import format_seconds

__all__ = ["Speech"]

PERIOD_S: Final = 60.0
KEPT_LINES: Final = 2000
KEPT_NOTICES: Final = 20
_COUNTED: Final = {
    "result_sent": "{} results sent",
    "result_late": "{} sent too late to be used",
    "result_cancelled": "{} sent whose job had been cancelled",
}

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
        self._counts: Counter[str] = Counter()
        self._counting_since_s: float | None = None
        self._rulings: dict[int, CardRuling] = {}
        self._said = 0
        self.log: deque[LogLine] = deque(maxlen=KEPT_LINES)
        self.notices: deque[NoticeItem] = deque(maxlen=KEPT_NOTICES)

    def explain(self, error: GoblinError) -> None:
        """Remembers the words and the fix of an error, for the line that names its code."""
        self._whys[error.code] = f"{error.what} {error.next_step}".strip()

    def say(self, code: str, /, **fields: object) -> None:
        """Writes one line. A field `code` is told in words, as far as they are known.

        What became of a result is told at once only for the first one after a quiet minute; those
        that follow are counted, for `sum_up`.
        """
        if code in _COUNTED and self._counting_since_s is not None:
            self._counts[code] += 1
            return
        if code in _COUNTED:
            self._counting_since_s = self._clock.monotonic_s()
        if "why" not in fields:
            cause = str(fields.get("code", ""))
            fields["why"] = self._whys.get(cause, cause.replace("_", " "))
        now_s = self._clock.wall_s()
        line = words.line(code, fields)
        self._note(now_s, code, fields, line)
        self._write(f"{words.clock_time(now_s)}  {line}")

    def _note(self, now_s: float, code: str, fields: dict[str, object], line: str) -> None:
        """Keeps what was said, for the log and for notices."""
        self.log.append(LogLine(now_s, code, redacted(line)[:1000]))
        self._said += 1
        plain = {
            name: value
            for name, value in fields.items()
            if isinstance(value, (int, float)) or (isinstance(value, str) and len(value) < 400)
        }
        self.notices.append(NoticeItem(f"notice-{self._said}", round(now_s, 1), code, plain))

    def next_s(self) -> float | None:
        """When `sum_up` has something to do next (monotonic); None before the next result."""
        return None if self._counting_since_s is None else self._counting_since_s + PERIOD_S

    def sum_up(self, *, is_last: bool = False) -> None:
        """Writes the line of the minute, when it is over or this is the end."""
        since_s, now_s = self._counting_since_s, self._clock.monotonic_s()
        if since_s is None or not (is_last or now_s >= since_s + PERIOD_S):
            return
        counted = [text.format(self._counts[code]) for code, text in _COUNTED.items()
                   if self._counts[code]]  # fmt: skip
        self._counts.clear()
        self._counting_since_s = now_s if counted else None
        if counted:
            span = format_seconds(max(1, round(now_s - since_s)))
            self.say("results_sent", span=span, sent=", ".join(counted))

    def say_ruling(self, ruling: CardRuling) -> None:
        """What holds for a card now, and all the reasons; nothing when only a moment moved."""
        old = self._rulings.get(ruling.card)
        self._rulings[ruling.card] = ruling
        if not is_told(old, ruling):
            return
        code = "card_finishes" if ruling.is_draining else _RULING_LINES[ruling.ruling]
        until = "" if ruling.until_s is None else f", until {words.clock_time(ruling.until_s)}"
        because = words.reasons(reason_items(ruling))
        self.say(code, card=ruling.card, because=because, until=until)
