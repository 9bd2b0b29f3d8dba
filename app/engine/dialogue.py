"""The order of messages: one state machine for what each side may receive.

Owns: the rules of the dialogue, pure: time is passed in. Must not: do I/O. Anything that is not
allowed raises `engine_lied` (the parent then ends the engine) or, on the engine's side, ends it.
"""

from __future__ import annotations

from typing import Final

from app.engine.protocol import (
    LOG_PER_S,
    PROGRESS_PER_S,
    QUEUE_LIMIT,
    Cancel,
    Done,
    Export,
    Exported,
    Failed,
    Frame,
    Log,
    Lost,
    Ping,
    Pong,
    Prepare,
    Prepared,
    Progress,
    Ready,
    Refused,
    Run,
)
from gpugoblin.errors import EngineError

__all__ = ["FromEngine", "FromParent", "Rate"]

BURST: Final = 256
"""What a socket buffer holds at once: a parent that slept reads so many small messages together."""


def _lied(reason: str) -> EngineError:
    return EngineError("engine_lied", reason=reason)


class Rate:
    """A token bucket: `per_s` a second in the long run, `burst` at once."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = burst
        self._last_s: float | None = None

    def take(self, now_s: float) -> bool:
        """True if one more is allowed at `now_s`."""
        if self._last_s is not None:
            gained = max(0.0, now_s - self._last_s) * self._per_s
            self._tokens = min(self._burst, self._tokens + gained)
        self._last_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class FromEngine:
    """What the parent may hear from its engine, given what it has said."""

    def __init__(self) -> None:
        self.ready = False
        self.outstanding: list[int] = []
        self._expected_sequence = 0
        self._ping: int | None = None
        self._due: type[Prepared] | type[Exported] | None = None
        self._is_lost = False
        self._logs = Rate(LOG_PER_S, BURST)
        self._progress = Rate(PROGRESS_PER_S, BURST)

    def submitted(self, task: int) -> None:
        """The parent sent `Run` with this number."""
        self.outstanding.append(task)

    def pinged(self, token: int) -> None:
        """The parent sent `Ping`."""
        self._ping = token

    def asked(self, answer: type[Prepared] | type[Exported]) -> None:
        """The parent sent what this answers; one such question is open at a time."""
        self._due = answer

    @property
    def is_asked(self) -> bool:
        """Is such a question open?"""
        return self._due is not None

    @property
    def ping_pending(self) -> bool:
        return self._ping is not None

    def receive(self, frame: Frame, now_s: float) -> None:
        """Accepts a frame or raises EngineError `engine_lied`."""
        if frame.sequence != self._expected_sequence:
            raise _lied(f"sequence {frame.sequence} where {self._expected_sequence} was due")
        self._expected_sequence += 1
        message = frame.message
        if isinstance(message, (Run, Cancel, Ping, Prepare, Export)):
            raise _lied(f"{type(message).__name__} comes only from the parent")
        if self._is_lost:
            raise _lied(f"{type(message).__name__} after the card was lost")
        if isinstance(message, Ready):
            if self.ready or frame.task:
                raise _lied("Ready comes once, and for no task")
            self.ready = True
        elif isinstance(message, Log):
            if not self._logs.take(now_s):
                raise _lied(f"more than {LOG_PER_S} log lines a second")
        elif not self.ready:
            raise _lied(f"{type(message).__name__} before Ready")
        elif isinstance(message, (Prepared, Exported)):
            if self._due is not type(message):
                raise _lied(f"{type(message).__name__} without its question")
            self._due = None
        elif isinstance(message, Lost):
            if not self.outstanding:
                raise _lied("Lost while no task runs")
            self._is_lost = True
        elif isinstance(message, Pong):
            if self._ping != message.token:
                raise _lied("Pong without its Ping")
            self._ping = None
        else:
            self._about_task(frame, now_s)

    def _about_task(self, frame: Frame, now_s: float) -> None:
        message = frame.message
        name = type(message).__name__
        if frame.task not in self.outstanding:
            raise _lied(f"{name} for task {frame.task}, which is not queued")
        if isinstance(message, Progress):
            if frame.task != self.outstanding[0]:
                raise _lied(f"Progress for task {frame.task}, which is not the first")
            if not self._progress.take(now_s):
                raise _lied(f"more than {PROGRESS_PER_S} progress messages a second")
            return
        if frame.task != self.outstanding[0]:
            raise _lied(f"{name} for task {frame.task} before the one in front of it")
        if not isinstance(message, (Done, Refused, Failed)):
            raise _lied(f"{name} is no answer to a task")
        self.outstanding.pop(0)


class FromParent:
    """What an engine may hear from its parent."""

    def __init__(self) -> None:
        self._expected_sequence = 0
        self._last_task = 0
        self._queued: set[int] = set()
        self._is_prepared = False

    def receive(self, frame: Frame) -> None:
        """Accepts a frame or raises EngineError `engine_lied`."""
        if frame.sequence != self._expected_sequence:
            raise _lied(f"sequence {frame.sequence} where {self._expected_sequence} was due")
        self._expected_sequence += 1
        message = frame.message
        if isinstance(message, Run):
            if frame.task <= self._last_task:
                raise _lied(f"task {frame.task} after task {self._last_task}")
            if len(self._queued) >= QUEUE_LIMIT:
                raise _lied(f"more than {QUEUE_LIMIT} tasks at once")
            self._last_task = frame.task
            self._queued.add(frame.task)
        elif isinstance(message, Prepare):
            if self._is_prepared or self._last_task:
                raise _lied("Prepare comes once, before the first task")
            self._is_prepared = True
        elif isinstance(message, Export):
            if self._queued:
                raise _lied("Export comes when there is no task")
        elif not isinstance(message, (Cancel, Ping)):
            raise _lied(f"{type(message).__name__} comes only from the engine")

    def queued(self, task: int) -> bool:
        """Has this task no answer yet?"""
        return task in self._queued

    def answered(self, task: int) -> None:
        """The engine sends the last word about this task."""
        self._queued.discard(task)
