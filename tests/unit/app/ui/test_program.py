"""The program put together: tray, window on demand, an agent started once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.ui.firstrun.progress import DONE, Progress
from app.ui.notify import Budget
from app.ui.program import Program, Setup
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def setup(
    directory: Path,
    *,
    in_background: bool = False,
    starts: list[int] | None = None,
    step: str = DONE,
) -> Setup:
    start = None if starts is None else lambda: starts.append(1)
    progress = Progress(directory.parent / "first-run")
    if step:
        progress.keep(step)
    return Setup(
        directory, start, in_background, "gpugoblin app --background",
        progress, Budget(directory.parent / "told"),
    )  # fmt: skip


@pytest.fixture
def programs() -> list[Program]:
    return []


@pytest.fixture(autouse=True)
def ended(programs: list[Program], qapp: QApplication) -> object:
    yield
    for program in programs:
        for shown in (program.window, program.wizard):
            if shown is not None:
                shown.hide()
                shown.deleteLater()
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
    qapp: QApplication,
    served: ServedAgent,
    programs: list[Program],
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    program = Program(qapp, setup(served.directory, in_background=True))
    monkeypatch.setattr(program.notifier, "tell", lambda kind, *_: told.append(kind))
    programs.append(program)
    program.begin()
    until(lambda: bool(program.link.items))
    assert program.window is None
    program._look_for_tray()
    program._look_for_tray()
    assert told == ["no_tray"] * 2, "the budget lets one through"
    assert program.window is None
    program._untold("title", "line")
    assert program.window is not None, "without tray and server nobody would find the program"


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


def test_a_machine_that_is_enrolled_already_needs_no_first_run(
    qapp: QApplication, served: ServedAgent, programs: list[Program], until: Until
) -> None:
    chosen = setup(served.directory, step="")
    program = Program(qapp, chosen)
    programs.append(program)
    program.begin()
    until(lambda: program.window is not None and program.window.isVisible())
    assert program.wizard is None
    assert chosen.progress.read() == DONE


def test_a_new_machine_is_led_and_a_second_start_comes_back_to_it(
    qapp: QApplication, short_path: Path, programs: list[Program], until: Until
) -> None:
    with ServedAgent("troubles", short_path / "control") as served:
        program = Program(qapp, setup(served.directory, step=""))
        programs.append(program)
        program.begin()
        until(lambda: program.wizard is not None and program.wizard.isVisible())
        assert program.wizard is not None
        assert program.window is None
        program.wizard.open("cards")
        program.open()
        assert program.window is not None
        assert not program.window.isVisible(), "the first run comes up in its place"
        program.wizard._later.click()
        until(lambda: program.window is not None and program.window.isVisible())
        program.link.close()


def test_without_an_agent_the_first_run_goes_on_where_it_was_left(
    qapp: QApplication, short_path: Path, programs: list[Program], until: Until
) -> None:
    program = Program(qapp, setup(short_path / "control", step="profile"))
    programs.append(program)
    program.begin()
    until(lambda: program.wizard is not None and program.wizard.isVisible())
    assert program.wizard is not None
    assert program.wizard.step == "profile"


def test_a_trouble_that_lasts_is_told_once(
    qapp: QApplication,
    short_path: Path,
    programs: list[Program],
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.ui.program.TROUBLE_MS", 50)
    told: list[str] = []
    with ServedAgent("troubles", short_path / "control") as served:
        program = Program(qapp, setup(served.directory, in_background=True))
        monkeypatch.setattr(program.notifier, "tell", lambda kind, *_: told.append(kind))
        programs.append(program)
        program.begin()
        for number in (1, 2, 3):
            served.step(number)
        until(lambda: told == ["trouble"])
        served.step(4)
        until(lambda: not program._trouble.isActive())
        assert told == ["trouble"]
        program.link.close()
