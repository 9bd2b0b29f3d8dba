"""Writes what the probes of this machine see to a file, for as long as somebody wants.

Owns: the probes of its own, and the file. Must not: lend, decide, or write a name (`recording.py`
says what is left out). An agent that lends meanwhile is seen as another program on its cards.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from datetime import UTC
from pathlib import Path
from typing import BinaryIO, Final

from msgspec.structs import replace

from app.policy.recording import FORMAT, Act, Begin, End, Facts, encode, facts_of
from app.probes.board import FactBoard
from app.probes.gather import Machine, Probes
from gpugoblin.errors import AgentError

__all__ = ["Recorder", "machine_here", "record"]

REST_S: Final = 0.05
"""Facts that change together are one line."""
STEP_S: Final = 1.0
"""A wall clock that is off by so much against the machine's uptime was set meanwhile."""


def machine_here(listed: tuple[str, ...] = ()) -> Machine:
    """All probes of this machine. `listed`: the owner's own programs that count as games."""
    return Machine(
        now_s=time.time,
        disk=Path("/"),
        ours=lambda: (os.getpid(),),
        held=lambda: (),
        listed=lambda: listed,
        traffic=lambda: (0, 0),
        delays_sleep=False,
    )


class Recorder:
    """Belongs to one loop.

    Args:
        file: takes the lines.
        pace: so many seconds of the recording are one of ours.
    """

    def __init__(self, file: BinaryIO, machine: Machine, pace: float = 1.0) -> None:
        self._file = file
        self._pace = pace
        self._changed = asyncio.Event()
        self._begin_s, self._began_s = time.time(), _uptime_s()
        self._at_s = 0.0
        self._last: Facts | None = None
        self.board = FactBoard(self._changed.set, lambda: UTC)
        self.probes = Probes(self.board, machine)
        self.lines = 0

    def mark(self, what: str) -> None:
        """Notes that whoever records does something now."""
        self._write(Act(self._now(), what))

    async def run(self, span_s: float) -> None:
        """Records for so many seconds, or until it is cancelled; the end is written either way."""
        self._write(Begin(FORMAT, self._pace))
        self.probes.start()
        self.probes.set_pace("lending")
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(span_s):
                    await self._follow()
        finally:
            try:
                self._write(End(self._now()))
            finally:  # also on a disk that is full
                await self.probes.close()

    async def _follow(self) -> None:
        while not self.board.is_whole:
            await self._changed.wait()
            self._changed.clear()
        while True:
            self._changed.clear()
            self._look()
            await self._changed.wait()
            await asyncio.sleep(REST_S)

    def _look(self) -> None:
        snapshot = self.board.snapshot(time.time(), time.monotonic(), self.board.cards())
        facts = facts_of(snapshot, self._begin(), self._pace)
        if self._last is None or replace(facts, at_s=self._last.at_s) != self._last:
            self._last = facts
            self._write(facts)

    def _now(self) -> float:
        return round((time.time() - self._begin()) * self._pace, 3)

    def _begin(self) -> float:
        """The begin by the wall clock as it goes now, which all moments of probes are of."""
        begin_s = time.time() - (_uptime_s() - self._began_s)
        if abs(begin_s - self._begin_s) >= STEP_S:
            self._begin_s = begin_s
        return self._begin_s

    def _write(self, line: Act | Begin | End | Facts) -> None:
        if not isinstance(line, Begin):  # the order of lines holds for a clock that is slowed, too
            self._at_s = max(self._at_s, line.at_s)
            line = replace(line, at_s=self._at_s)
        self._file.write(encode(line))
        self._file.flush()
        self.lines += 1


def _uptime_s() -> float:
    """Sleep counts, and nobody can set it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def record(path: Path, span_s: float, machine: Machine) -> int:
    """Records into a new file, until the time is over or Ctrl-C; how many lines it has.

    Raises:
        AgentError: `recording_unwritable`: it is there already, or cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        raise AgentError("recording_unwritable", path=path, reason=cause.strerror) from cause

    async def whole(file: BinaryIO) -> int:
        recorder = Recorder(file, machine)
        task = asyncio.ensure_future(recorder.run(span_s))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return recorder.lines

    try:
        with os.fdopen(descriptor, "wb") as file:
            return asyncio.run(whole(file))
    except OSError as cause:
        raise AgentError("recording_unwritable", path=path, reason=cause.strerror) from cause
