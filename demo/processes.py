"""The processes of the demonstration: started, watched, ended by pid.

Owns: `Processes`. Every program runs as a user would run it, isolated (`python -I -m ...`), with
its output in a log file of the state directory.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

__all__ = ["Processes", "run_command"]

STOP_S = 10.0


def run_command(module: str, *arguments: str) -> str:
    """Runs a command to its end and returns what it printed.

    Raises:
        RuntimeError: it failed; the message holds its words.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-m", module, *arguments], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


class Processes:
    """Started programs by name. A context manager: leaving it ends all of them."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """Starts a program in a session of its own.

        Args:
            module: run as `python -I -m module`, or the path of a script.
        """
        program = [module] if module.endswith(".py") else ["-m", module]
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", *program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[name] = process
        return process

    def log(self, name: str) -> str:
        return (self._logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def await_match(self, name: str, pattern: str, timeout_s: float = 30.0) -> str:
        """The first part of a program's log that matches.

        Raises:
            RuntimeError: it ended, or the time is over; the message holds the end of its log.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            ended = self._running[name].poll() is not None
            found = re.search(pattern, self.log(name), re.MULTILINE)
            if found:
                return found.group()
            if ended or time.monotonic() > deadline_s:
                how = "ended" if ended else f"did not say {pattern!r} within {timeout_s:.0f} s"
                raise RuntimeError(f"{name} {how}; its last words:\n{self.log(name)[-2000:]}")
            time.sleep(0.05)

    def await_end(self, name: str, timeout_s: float = 30.0) -> None:
        """Waits until a program ends well.

        Raises:
            RuntimeError: it failed, or the time is over; the message holds the end of its log.
        """
        status = self._running[name].wait(timeout_s)
        del self._running[name]
        if status != 0:
            raise RuntimeError(f"{name} failed ({status}):\n{self.log(name)[-2000:]}")

    def kill(self, name: str) -> None:
        """SIGKILL, as when power fails."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def terminate(self, name: str) -> None:
        """SIGTERM, as when its owner ends it; waits."""
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def resident_bytes(self, name: str) -> int:
        """Proportional resident memory of a program and all its children, now."""
        return sum(_resident_bytes(pid) for pid in _family(self._running[name].pid))

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
        for name in list(self._running):
            self.terminate(name)


def _family(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text(encoding="ascii").split()]
            except OSError:
                continue
    return found


def _resident_bytes(pid: int) -> int:
    """Pss: shared pages are counted once over all that share them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
