"""The first run by keyboard and mouse, with an agent, without one, and left in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.control.messages import EnrolPoll, SelfTest, SettingsSet, SigninBegin, SigninCode
from app.ui.actions import Actions
from app.ui.autostart import Autostart
from app.ui.firstrun.account import AccountStep
from app.ui.firstrun.cards import CardsStep
from app.ui.firstrun.progress import DONE, STEPS, Progress
from app.ui.firstrun.steps import ProfileStep, StartStep
from app.ui.firstrun.wizard import Wizard
from app.ui.link import Link
from app.ui.pages.page import Context
from app.ui.store import Store
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def served(qapp: object, short_path: Path) -> Iterator[ServedAgent]:
    with ServedAgent("troubles", short_path / "control") as agent:
        yield agent


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress(tmp_path / "first-run")


def wizard_of(context: Context, tmp_path: Path, progress: Progress, qtbot: QtBot) -> Wizard:
    wizard = Wizard(context, Autostart("gpugoblin app", tmp_path / "autostart"), progress)
    qtbot.addWidget(wizard)
    context.link.changed.connect(wizard.show_items)
    wizard.show_items(context.link.items)
    wizard.come_up()
    return wizard


@pytest.fixture
def wizard(context: Context, tmp_path: Path, progress: Progress, qtbot: QtBot) -> Wizard:
    return wizard_of(context, tmp_path, progress, qtbot)


def focused() -> object:
    return QApplication.focusWidget()


def press(qtbot: QtBot, wizard: Wizard, *keys: Qt.Key) -> None:
    for key in keys:
        qtbot.keyClick(focused() or wizard, key)  # type: ignore[no-untyped-call]


def step_of(wizard: Wizard, kind: type) -> object:
    return next(step for step in wizard.steps.values() if isinstance(step, kind))


def test_from_the_first_page_to_the_last_by_keyboard_alone(
    wizard: Wizard, served: ServedAgent, progress: Progress, qtbot: QtBot, until: Until
) -> None:
    qtbot.waitExposed(wizard)
    wizard.activateWindow()
    until(lambda: focused() is wizard._next)
    press(qtbot, wizard, Qt.Key.Key_Space)
    assert wizard.step == "account"
    assert wizard._next.text() == "Skip this", "nobody has signed in"
    account = step_of(wizard, AccountStep)
    assert isinstance(account, AccountStep)
    account._mailbox.setFocus()
    qtbot.keyClicks(account._mailbox, "ann@example.org")  # type: ignore[no-untyped-call]
    press(qtbot, wizard, Qt.Key.Key_Return)
    until(lambda: "ann@example.org" in account._answer.text())
    until(lambda: focused() is account._digits)
    qtbot.keyClicks(account._digits, "1234")  # type: ignore[no-untyped-call]
    press(qtbot, wizard, Qt.Key.Key_Return)
    until(lambda: "8 digits" in account._answer.text())
    qtbot.keyClicks(account._digits, "1234 5678")  # type: ignore[no-untyped-call]
    press(qtbot, wizard, Qt.Key.Key_Return)
    until(lambda: wizard._next.text() == "Continue")
    assert not account._letter.isVisible()
    for expected in STEPS[2:]:
        wizard._next.setFocus()
        press(qtbot, wizard, Qt.Key.Key_Space)
        assert wizard.step == expected
    assert wizard._next.text() == "Finish"
    with qtbot.waitSignal(wizard.left) as left:
        press(qtbot, wizard, Qt.Key.Key_Space)
    assert left.args == [True]
    assert progress.read() == DONE
    kinds = {type(one) for one in served.asked}
    assert {SigninBegin, SigninCode, EnrolPoll, SelfTest} <= kinds


def test_it_can_be_left_at_any_page_and_goes_on_there(
    wizard: Wizard, context: Context, tmp_path: Path, progress: Progress, qtbot: QtBot
) -> None:
    for name in STEPS[:-1]:
        wizard.show()
        wizard.open(name)
        with qtbot.waitSignal(wizard.left) as left:
            wizard._later.click()
        assert left.args == [False]
        again = Wizard(context, Autostart("x", tmp_path / "autostart"), progress)
        qtbot.addWidget(again)
        assert again.step == name


def test_cards_are_measured_one_after_another_and_chosen(
    wizard: Wizard, served: ServedAgent, until: Until
) -> None:
    wizard.open("cards")
    step = step_of(wizard, CardsStep)
    assert isinstance(step, CardsStep)
    until(lambda: all("Measured" in row.result.text() for row in step.rows.values()))
    assert "12 Tflop/s" in step.rows[1].result.text()
    assert [one.card for one in served.asked if isinstance(one, SelfTest)] == [0, 1]
    until(lambda: step._effect.text().startswith("Right now this would lend"))
    step.rows[0].lend.click()
    until(lambda: served.agent.values["cards.lend"] == (step.rows[1].identity,))
    step.rows[1].lend.click()
    assert step.rows[1].lend.isChecked(), "one card stays"
    assert "pause" in step._hint.text()


def test_a_profile_says_what_it_would_mean_now(
    wizard: Wizard, served: ServedAgent, until: Until
) -> None:
    wizard.open("profile")
    step = step_of(wizard, ProfileStep)
    assert isinstance(step, ProfileStep)
    assert step.choices["away"].isChecked(), "the default"
    until(lambda: "would lend nothing" in step._effect.text())
    step.choices["always"].click()
    until(lambda: "(slowly)" in step._effect.text())
    until(lambda: any(isinstance(one, SettingsSet) for one in served.asked))
    assert served.agent.values["profile"] == "always"


def test_the_last_page_switches_the_login_and_says_what_is_missing(
    wizard: Wizard, tmp_path: Path
) -> None:
    wizard.open("start")
    step = step_of(wizard, StartStep)
    assert isinstance(step, StartStep)
    assert "not known to the network" in step._state.text()
    step.switch.click()
    assert list((tmp_path / "autostart").iterdir())
    step.switch.click()
    assert not list((tmp_path / "autostart").iterdir())


def test_without_an_agent_every_page_can_be_walked(
    qapp: object, tmp_path: Path, progress: Progress, qtbot: QtBot
) -> None:
    link = Link(tmp_path / "nobody")
    store = Store(link, link)
    context = Context(link, store, Actions(link, lambda _: None), lambda _: None)
    wizard = wizard_of(context, tmp_path, progress, qtbot)
    wizard.show_items({}, "No agent listens.")
    assert wizard._away.isVisible()
    for name in STEPS[1:]:
        wizard._next.click()
        assert wizard.step == name
    account = step_of(wizard, AccountStep)
    assert isinstance(account, AccountStep)
    wizard.open("account")
    assert "does not run" in account._state.text()
    assert not account._send.isEnabled()
    wizard.open("start")
    wizard._next.click()
    assert progress.read() == DONE
