"""Progress: a bar, HTML, or a line a minute."""

from __future__ import annotations

import io
import sys
from types import ModuleType
from typing import Any

import msgspec
import pytest

import gpugoblin as gg
from gpugoblin.client import progress
from gpugoblin.client.progress import (
    LogRenderer,
    NotebookRenderer,
    TerminalRenderer,
    choose_renderer,
)
from gpugoblin.client.session import Session
from gpugoblin.client.views import StatusView


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ticking:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def status(lab: Session) -> StatusView:
    job = gg.array([1, 2, 3]).sum().save(name="sum")
    info = job.info  # type: ignore[attr-defined]
    return StatusView(msgspec.structs.replace(info, state="running", verified=1))


def done(status: StatusView) -> StatusView:
    return StatusView(msgspec.structs.replace(status.info, state="done", verified=4))


def test_a_log_has_a_line_a_minute(status: StatusView) -> None:
    stream, clock = io.StringIO(), Ticking()
    renderer = LogRenderer(stream, clock)
    for now_s in (0.0, 30.0, 61.0, 90.0, 122.0):
        clock.now_s = now_s
        renderer.update(status)
    renderer.update(done(status))
    renderer.close()
    lines = stream.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == ["gpugoblin: sum: running"] * 2 + [
        "gpugoblin: sum: done"
    ]


def test_a_short_job_leaves_no_line(status: StatusView) -> None:
    stream = io.StringIO()
    renderer = LogRenderer(stream, Ticking())
    renderer.update(done(status))
    renderer.close()
    assert stream.getvalue() == ""


def test_a_terminal_has_a_bar_that_reaches_its_end(status: StatusView) -> None:
    stream, clock = Terminal(), Ticking()
    renderer = TerminalRenderer(stream, clock)
    renderer.update(status)
    assert stream.getvalue() == ""
    clock.now_s = 1.0
    renderer.update(status)
    renderer.update(done(status))
    renderer.close()
    assert "sum" in stream.getvalue()
    assert "4/4" in stream.getvalue()


def test_a_bar_says_what_a_job_waits_for(
    status: StatusView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")  # on a dumb terminal nothing is drawn over
    stream, clock = Terminal(), Ticking()
    renderer = TerminalRenderer(stream, clock)
    clock.now_s = 1.0
    waiting = msgspec.structs.replace(status.info, error_code="disk_full", error_text="Make space.")
    renderer.update(StatusView(waiting))
    assert "waits: disk full" in stream.getvalue()
    renderer.update(status)
    renderer.close()
    assert "waits" not in stream.getvalue().rpartition("disk full")[2]


def test_a_notebook_has_one_display_that_is_drawn_over(status: StatusView) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, status: StatusView) -> None:
            shown.append(status)

    def display(status: StatusView, display_id: bool) -> Handle:
        assert display_id
        shown.append(status)
        return Handle()

    clock = Ticking()
    renderer = NotebookRenderer(display, clock)
    renderer.update(status)
    clock.now_s = 1.0
    renderer.update(status)
    renderer.update(done(status))
    renderer.close()
    assert [view.info.state for view in shown] == ["running", "done"]


def test_the_renderer_fits_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert isinstance(choose_renderer(Terminal()), TerminalRenderer)
    assert isinstance(choose_renderer(io.StringIO()), LogRenderer)
    assert "IPython" not in sys.modules

    shell = type("ZMQInteractiveShell", (), {})()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    vars(ipython)["get_ipython"] = lambda: shell
    vars(display)["display"] = print
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    assert isinstance(choose_renderer(io.StringIO()), NotebookRenderer)
    vars(ipython)["get_ipython"] = lambda: None
    assert isinstance(choose_renderer(io.StringIO()), LogRenderer)
    assert progress.LOG_INTERVAL_S == 60.0
