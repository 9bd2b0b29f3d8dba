"""The first run by keyboard and mouse, with an agent, without one, and left in the middle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.control.messages import EnrolPoll, SelfTest, SigninBegin, SigninCode
from app.ui.actions import Actions
from app.ui.autostart import Autostart
from app.ui.firstrun.account import AccountStep
from app.ui.firstrun.progress import DONE, STEPS, Progress
from app.ui.firstrun.wizard import Wizard
from app.ui.link import Link
from app.ui.pages.page import Context
from app.ui.store import Store
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def focused() -> object:
    return QApplication.focusWidget()


def press(qtbot: QtBot, wizard: Wizard, *keys: Qt.Key) -> None:
    for key in keys:
        qtbot.keyClick(focused() or wizard, key)  # type: ignore[no-untyped-call]


def step_of(wizard: Wizard, kind: type) -> object:
    return next(step for step in wizard.steps.values() if isinstance(step, kind))


def test_b822_b640_from_the_first_page_to_the_last_by_keyboard_alone(
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


def test_without_an_agent_every_page_can_be_walked(
    qapp: object, tmp_path: Path, progress: Progress, qtbot: QtBot
) -> None:
    link = Link(tmp_path / "nobody")
    store = Store(link, link)
    context = Context(link, store, Actions(link, lambda _: None), lambda _: None)
    wizard = Wizard(context, Autostart("x", tmp_path / "autostart"), progress)
    qtbot.addWidget(wizard)
    wizard.come_up()
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
