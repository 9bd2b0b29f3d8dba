"""What an engine may take: time and private memory.

Owns: the limits, how long an engine has been silent, and the reading of a process's memory. Must
not: end anything itself, or read a clock: the time is passed in.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MEMORY_PERIOD_S", "Watch", "private_bytes", "time_limit_s"]

MEMORY_PERIOD_S: Final = 0.1
"""How often memory is read while a task runs; one reading costs about 0.1 ms."""

CANCEL_LIMIT_S: Final = 10.0
"""How long a cancelled task may go on."""


class Watch:
    """The time of one engine, from its launch on. It stands still while the engine is frozen.

    Args:
        answer_limit_s: from the launch to `Ready`, and from any later question to its answer.
    """

    def __init__(self, now_s: float, answer_limit_s: float) -> None:
        self.answer_limit_s = answer_limit_s
        self._asked_s: float | None = now_s
        self._began_s = now_s
        self._frozen_s: float | None = None
        self._cancelled: dict[int, float] = {}

    @property
    def is_frozen(self) -> bool:
        return self._frozen_s is not None

    def asked(self, now_s: float) -> None:
        """The engine owes an answer that is not about a task."""
        self._asked_s = now_s

    def answered(self) -> None:
        """It has given that answer."""
        self._asked_s = None

    def is_silent(self, now_s: float) -> bool:
        """Is such an answer overdue?"""
        if self._asked_s is None or self.is_frozen:
            return False
        return now_s - self._asked_s > self.answer_limit_s

    def begins(self, now_s: float) -> None:
        """The first task of the queue begins now."""
        self._began_s = now_s

    def cancels(self, task: int, now_s: float) -> bool:
        """The parent wants the task to end; False where it has said so before."""
        if task in self._cancelled:
            return False
        self._cancelled[task] = now_s
        return True

    def ends(self, task: int) -> None:
        """The task has its last answer."""
        self._cancelled.pop(task, None)

    def overrun_s(self, now_s: float, task: int, predicted_s: float) -> float | None:
        """The limit of the first task of the queue, where it is over it."""
        if self.is_frozen:
            return None
        limit_s = time_limit_s(predicted_s)
        if task in self._cancelled:
            asked_s = max(0.0, self._cancelled[task] - self._began_s)
            limit_s = min(limit_s, asked_s + CANCEL_LIMIT_S)
        return limit_s if now_s - self._began_s > limit_s else None

    def freeze(self, now_s: float) -> bool:
        """False where time stands still already."""
        if self.is_frozen:
            return False
        self._frozen_s = now_s
        return True

    def thaw(self, now_s: float) -> bool:
        """False where time goes on already."""
        if self._frozen_s is None:
            return False
        stood_s, self._frozen_s = now_s - self._frozen_s, None
        self._began_s += stood_s
        self._cancelled = {task: at_s + stood_s for task, at_s in self._cancelled.items()}
        if self._asked_s is not None:
            self._asked_s += stood_s
        return True


def time_limit_s(predicted_s: float) -> float:
    """Twice the prediction and 5 s more."""
    return 2.0 * max(0.0, predicted_s) + 5.0


def private_bytes(pid: int, arena_bytes: int) -> int | None:
    """Resident anonymous and shared memory of a process beyond its arenas; None if it is gone.

    RLIMIT_DATA does not see shared mappings, so this is the limit that counts for them. Pages of
    the arenas are the parent's own decision and are taken off.
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            text = file.read(8192)
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = {b"RssAnon": 0, b"RssShmem": 0}
    for line in text.splitlines():
        name, _, rest = line.partition(b":")
        if name in found:
            found[name] = int(rest.split()[0]) * 1024
    return found[b"RssAnon"] + max(0, found[b"RssShmem"] - arena_bytes)
