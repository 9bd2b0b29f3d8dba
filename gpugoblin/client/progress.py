"""Progress as it happens: a bar in a terminal, HTML in a notebook, a line a minute in a log.

Owns: the choice among the three, and drawing them. Must not: poll; `job.wait` feeds it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gpugoblin.client.views import StatusView

__all__ = ["LOG_INTERVAL_S", "Renderer", "choose_renderer"]

LOG_INTERVAL_S: Final = 60.0
QUIET_S: Final = 0.5
"""A job that is done within this time shows no bar."""


class Renderer(Protocol):
    """Draws a job. `update` is called about once a second, `close` once."""

    def update(self, status: StatusView) -> None: ...

    def close(self) -> None: ...


class LogRenderer:
    """A line a minute, and a last one when there has been another before."""

    def __init__(self, stream: TextIO, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._monotonic_s = monotonic_s
        self._next_s = monotonic_s() + LOG_INTERVAL_S
        self._latest: StatusView | None = None
        self._written = 0

    def update(self, status: StatusView) -> None:
        self._latest = status
        if self._monotonic_s() >= self._next_s:
            self._write(status)
            self._next_s = self._monotonic_s() + LOG_INTERVAL_S

    def close(self) -> None:
        if self._written and self._latest is not None:
            self._write(self._latest)

    def _write(self, status: StatusView) -> None:
        print(f"gpugoblin: {status.line()}", file=self._stream, flush=True)
        self._written += 1


class TerminalRenderer:
    """A bar; appears once the job has taken half a second. No thread: it draws when fed."""

    def __init__(self, stream: TextIO, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._start_s = monotonic_s()
        self._bar: Progress | None = None
        self._task: Any = None
        self._stream = stream

    def update(self, status: StatusView) -> None:
        if self._bar is None:
            if self._monotonic_s() - self._start_s < QUIET_S:
                return
            self._bar = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("verified {task.fields[note]}"),
                TimeElapsedColumn(),
                console=Console(file=self._stream),
                auto_refresh=False,
            )
            self._task = self._bar.add_task(escape(status.info.name), total=None, note="")
            self._bar.start()
        self._bar.update(
            self._task,
            total=status.tasks,
            completed=status.tasks if status.info.state == "done" else status.verified,
            note=_note(status),
        )
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _note(status: StatusView) -> str:
    """Beside the bar: how the job ended, or what it waits for."""
    if status.info.state != "running":
        return status.info.state
    waits_for = status.info.error_code.replace("_", " ")
    return f"waits: {waits_for}" if waits_for else ""


class NotebookRenderer:
    """One HTML display that is drawn over; needs no extension."""

    def __init__(
        self, display: Callable[..., Any], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._display = display
        self._monotonic_s = monotonic_s
        self._start_s = monotonic_s()
        self._handle: Any = None

    def update(self, status: StatusView) -> None:
        if self._handle is not None:
            self._handle.update(status)
        elif self._monotonic_s() - self._start_s >= QUIET_S:
            self._handle = self._display(status, display_id=True)

    def close(self) -> None:
        self._handle = None


def choose_renderer(stream: TextIO | None = None) -> Renderer:
    """The renderer for where this process shows things. IPython is asked only if it is loaded."""
    stream = sys.stderr if stream is None else stream
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
        return NotebookRenderer(sys.modules["IPython.display"].display)
    if stream.isatty():
        return TerminalRenderer(stream)
    return LogRenderer(stream)
