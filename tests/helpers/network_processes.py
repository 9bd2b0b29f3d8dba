"""Programs that a test starts, watches and ends by pid.

Owns: `Programs`. Each runs isolated, as its user would run it, with what it says in a log file of
its own. Whatever happens in the test, leaving the context ends all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

__all__ = ["Programs", "patience", "run_to_end"]

LIMIT_S = 40.0
"""How long anything here may take before a test gives up; far above what it does take."""


def patience(what: str, limit_s: float = LIMIT_S) -> _Patience:
    """Loop `while waiting():` around a look at something that will come true."""
    return _Patience(what, limit_s)


class _Patience:
    def __init__(self, what: str, limit_s: float) -> None:
        self._what = what
        self._limit_s = limit_s
        self._ends_s = time.monotonic() + limit_s
        self._first = True

    def __call__(self) -> bool:
        if time.monotonic() > self._ends_s:
            raise AssertionError(f"{self._what}: not within {self._limit_s:.0f} s")
        if not self._first:
            time.sleep(0.03)
        self._first = False
        return True


def run_to_end(*words: str) -> str:
    """Runs `python -I words` and returns what it printed; a failure is an AssertionError."""
    done = subprocess.run(
        [sys.executable, "-I", *words], capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode != 0:
        raise AssertionError(f"{words} failed: {done.stdout}{done.stderr}")
    return done.stdout


class Programs:
    """Started programs by name."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, words: Sequence[str], **environment: str) -> None:
        """Starts `python -I words`; its log goes on where an earlier one of this name ended."""
        with (self.logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-I", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def names(self) -> list[str]:
        return list(self._running)

    def log(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def await_line(self, name: str, pattern: str, start: int = 0) -> re.Match[str]:
        """The first match in a program's log after `start` characters of it."""
        waiting = patience(f"{name} says {pattern!r}")
        while waiting():
            ended = self._running[name].poll()
            found = re.compile(pattern, re.MULTILINE).search(self.log(name), start)
            if found is not None:
                return found
            if ended is not None:
                break
        raise AssertionError(f"{name} ended ({ended}) without {pattern!r}:\n{self.log(name)}")

    def await_end(self, name: str, status: int = 0) -> None:
        found = self._running.pop(name).wait(LIMIT_S)
        assert found == status, f"{name} ended with {found}:\n{self.log(name)}"

    def ask_to_end(self, name: str) -> None:
        """SIGTERM."""
        self._running[name].terminate()

    def kill(self, name: str) -> None:
        """SIGKILL, as when power fails."""
        process = self._running.pop(name)
        process.kill()
        process.wait(LIMIT_S)

    def __enter__(self) -> Programs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(LIMIT_S)
        self._running.clear()
