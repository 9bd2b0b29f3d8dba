"""The handle of one walled engine: its ids, its last words, its end, and the proof of its walls.

Owns: a started process until it is reaped. Must not: start one (`launch.py` does).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.sandbox import attest
from app.sandbox.attest import Attestation, Expectation
from app.sandbox.cgroups import Group
from app.sandbox.spec import Level
from gpugoblin.errors import SandboxError

__all__ = ["EngineProcess", "Pids"]

STDERR_BYTES: Final = 64 * 1024
STUCK_S: Final = 2.0
GONE_POLL_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Pids:
    """The processes of one engine as the host counts them.

    Args:
        top: what we started: bubblewrap, or the engine itself at the level `reduced`.
        first: process 1 inside; its end is the end of all inside. `top` where there is none.
        engine: the process that computes.
    """

    top: int
    first: int
    engine: int


def _gone(pid: int) -> bool:
    """No memory, no descriptor is left of it; a zombie may wait for a parent that is not us."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


class _Tail:
    """Reads a pipe to its end and keeps the last 64 KiB."""

    def __init__(self, descriptor: int) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(
            target=self._drain, args=(descriptor,), name="engine-stderr", daemon=True
        )
        self._thread.start()

    def _drain(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            while piece := stream.read(4096):
                self._kept += piece
                del self._kept[:-STDERR_BYTES]

    def text(self) -> str:
        return bytes(self._kept).decode("utf-8", "replace")

    def join(self) -> None:
        self._thread.join(timeout=STUCK_S)


class EngineProcess:
    """A running engine within its walls.

    Args:
        held: descriptors to close when it is gone. release: called once then.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stderr: int,
        level: Level,
        held: tuple[int, ...],
        release: Callable[[], None],
    ) -> None:
        self.level: Level = level
        self.pids = Pids(process.pid, process.pid, process.pid)
        self.expectation: Expectation | None = None
        self.masked: frozenset[str] = frozenset()
        self.cgroup: Group | None = None
        self.status_fd = -1
        self._process = process
        self._held = held
        self._release = release
        self._gone = False
        self._killed_at_s: float | None = None
        self._pidfd = os.pidfd_open(process.pid)
        self._first_pidfd = -1
        self._tail = _Tail(stderr)

    @property
    def pid(self) -> int:
        """The process that we started."""
        return self.pids.top

    @property
    def engine_pid(self) -> int:
        """The process that computes."""
        return self.pids.engine

    def found(self, pids: Pids) -> None:
        """The launcher has learned who is who.

        Raises:
            ProcessLookupError: it has ended meanwhile.
        """
        if pids.first != pids.top:
            self._first_pidfd = os.pidfd_open(pids.first)
        self.pids = pids

    def fileno(self) -> int:
        """A descriptor that becomes readable when all its processes have ended."""
        return self._pidfd

    def stderr_tail(self) -> str:
        """Its last words, at most 64 KiB, undecodable bytes replaced."""
        return self._tail.text()

    def attest(self) -> Attestation:
        """Examines the engine from outside. Call it when it says `Ready`, before the first task.

        Raises:
            SandboxError: `engine_unconfined` (it is ended then), `process_unprobed`.
        """
        expected = self.expectation
        try:
            if expected is None:
                raise ProcessLookupError(self.engine_pid)
            sight = attest.look(self.engine_pid)
        except OSError:
            self.kill()
            raise SandboxError(
                "process_unprobed",
                pid=self.engine_pid,
                stderr=self.stderr_tail()[-500:].strip() or "none",
            ) from None
        wrong = attest.mismatches(sight, expected, self.masked)
        if wrong:
            self.kill()
            raise SandboxError("engine_unconfined", mismatch="; ".join(wrong))
        return Attestation(self.level, self.engine_pid, self.cgroup is not None)

    def kill(self) -> None:
        """SIGKILL, and back at once; `wait` says when it is gone. Harmless when it is."""
        if self._gone:
            return
        if self._killed_at_s is None:
            self._killed_at_s = time.monotonic()
        # Process 1 first: the kernel lets it end only after all others inside, and bubblewrap
        # ends after it, so its end is the end of everything.
        self._signal(self._first_pidfd if self._first_pidfd >= 0 else self._pidfd)

    def _signal(self, pidfd: int) -> None:
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return

    def wait(self, timeout_s: float) -> int | None:
        """Reaps it: the exit status (negative: a signal), or None if it still runs.

        When this returns a status, no process of the engine exists any more.
        """
        if self._gone:
            return self._status()
        deadline_s = time.monotonic() + timeout_s
        waiter = select.poll()
        waiter.register(self._pidfd, select.POLLIN)
        while not waiter.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
            if self._killed_at_s is not None and time.monotonic() > self._killed_at_s + STUCK_S:
                self._signal(self._pidfd)
            if time.monotonic() >= deadline_s:
                return None
        while not (_gone(self.pids.engine) and _gone(self.pids.first)):
            if time.monotonic() >= deadline_s:
                return None
            time.sleep(GONE_POLL_S)
        self._bury()
        return self._status()

    def end(self, timeout_s: float = 10.0) -> int | None:
        """`kill` and `wait`."""
        self.kill()
        return self.wait(timeout_s)

    def _status(self) -> int:
        """bubblewrap reports a death by signal as 128 and more."""
        status = self._process.wait()
        return 128 - status if 128 < status <= 192 else status

    def _bury(self) -> None:
        self._process.wait()
        self._gone = True
        self._tail.join()
        for descriptor in (self._pidfd, self._first_pidfd, *self._held):
            if descriptor >= 0:
                os.close(descriptor)
        self._pidfd = self._first_pidfd = -1
        if self.cgroup is not None:
            self.cgroup.remove()
        self._release()
