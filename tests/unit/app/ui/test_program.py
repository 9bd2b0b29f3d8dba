"""The program put together: tray, window on demand, an agent started once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.ui.program import Program, Setup
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def setup(
    directory: Path, *, in_background: bool = False, starts: list[int] | None = None
) -> Setup:
    start = None if starts is None else lambda: starts.append(1)
    return Setup(directory, start, in_background, "gpugoblin app --background")


@pytest.fixture
def programs() -> list[Program]:
    return []


@pytest.fixture(autouse=True)
def ended(programs: list[Program], qapp: QApplication) -> object:
    yield
    for program in programs:
        if program.window is not None:
            program.window.hide()
            program.window.deleteLater()
        program._end()
        program.deleteLater()


def test_the_window_opens_with_what_the_agent_says(
    qapp: QApplication, served: ServedAgent, programs: list[Program], until: Until
) -> None:
    program = Program(qapp, setup(served.directory))
    programs.append(program)
    program.begin()
    assert program.window is not None
    assert program.window.isVisible()
    until(lambda: bool(program.link.items))
    until(lambda: program.store is not None and bool(program.store.values))


def test_in_the_background_there_is_no_window(
    qapp: QApplication, served: ServedAgent, programs: list[Program], until: Until
) -> None:
    program = Program(qapp, setup(served.directory, in_background=True))
    programs.append(program)
    program.begin()
    until(lambda: bool(program.link.items))
    assert program.window is None
    program._look_for_tray()
    assert program.window is not None, "without a tray nobody would find the program"


def test_an_agent_is_started_once_where_none_runs(
    qapp: QApplication, short_path: Path, programs: list[Program], until: Until
) -> None:
    starts: list[int] = []
    program = Program(qapp, setup(short_path / "control", starts=starts, in_background=True))
    programs.append(program)
    program.begin()
    until(lambda: bool(starts))
    program.link.open()
    program.link.open()
    assert starts == [1]
    program.open("help")
    assert program.window is not None


def test_somebody_elses_word_brings_a_page_up(
    qapp: QApplication, served: ServedAgent, programs: list[Program], until: Until
) -> None:
    program = Program(qapp, setup(served.directory, in_background=True))
    programs.append(program)
    program.begin()
    program.link.show_page.emit("privacy")
    assert program.window is not None
    assert program.window._stack.currentWidget() is program.window.pages["privacy"]
