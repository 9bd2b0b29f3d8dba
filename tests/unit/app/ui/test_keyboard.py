"""Without a mouse: the keyboard reaches every control of every page, and does every task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QScrollArea,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.control.messages import Doctor, Finish, Pause, Resume, SettingsSet
from app.ui.autostart import Autostart
from app.ui.firstrun.progress import STEPS, Progress
from app.ui.firstrun.wizard import Wizard
from app.ui.pages.page import Context
from app.ui.window import PAGE_NAMES, Window
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]
MOST_STEPS = 400


@pytest.fixture
def window(context: Context, tmp_path: Path, qtbot: QtBot) -> Window:
    made = Window(context, Autostart("gpugoblin app", tmp_path / "autostart"))
    qtbot.addWidget(made)
    context.link.changed.connect(made.show_items)
    made.show_items(context.link.items)
    made.come_up()
    qtbot.waitUntil(lambda: QApplication.activeWindow() is made)
    return made


def key(qtbot: QtBot, target: QWidget, *keys: Qt.Key) -> None:
    for one in keys:
        qtbot.keyClick(QApplication.focusWidget() or target, one)  # type: ignore[no-untyped-call]


def reached(qtbot: QtBot, top: QWidget) -> list[QWidget]:
    """What Tab comes to, until it comes to something again."""
    seen: list[QWidget] = []
    for _ in range(MOST_STEPS):
        key(qtbot, top, Qt.Key.Key_Tab)
        here = QApplication.focusWidget()
        assert here is not None, "the focus is nowhere"
        if here in seen:
            return seen
        # A page's own area is covered by what lies in it, so it has no visible part of its own.
        is_seen = isinstance(here, QScrollArea) or not _shown(here).visibleRegion().isEmpty()
        here.setProperty("was_seen", is_seen)
        seen.append(here)
    raise AssertionError(f"Tab does not come round: {seen[-1]!r}")


def _shown(widget: QWidget) -> QWidget:
    return widget.viewport() if isinstance(widget, QAbstractScrollArea) else widget


def wanted(top: QWidget) -> list[QWidget]:
    """What can be worked with and is seen, in whatever way it is worked with."""
    kinds = (QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit)
    found = [
        each for each in top.findChildren(QWidget)
        if isinstance(each, kinds) and each.isVisible() and each.isEnabled()
        and not each.objectName().startswith("qt_")
    ]  # fmt: skip
    return [each for each in found if not isinstance(each.parent(), (QAbstractSpinBox, QComboBox))]


def missed(qtbot: QtBot, top: QWidget) -> list[str]:
    """What Tab never comes to; of radio buttons one of a group will do, arrows go on from there."""
    seen = reached(qtbot, top)
    groups = {each.group() for each in seen if isinstance(each, QRadioButton)}
    return [
        f"{type(each).__name__} {each.accessibleName() or getattr(each, 'text', str)()}"
        for each in wanted(top)
        if each not in seen and not (isinstance(each, QRadioButton) and each.group() in groups)
    ]


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_b147_b1069_tab_reaches_everything(window: Window, page: str, qtbot: QtBot) -> None:
    window.open_page(page)
    qtbot.wait(50)
    assert missed(qtbot, window) == []


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_what_has_the_focus_is_seen(window: Window, page: str, qtbot: QtBot) -> None:
    window.open_page(page)
    window.resize(700, 440)
    qtbot.wait(50)
    for each in reached(qtbot, window):
        assert each.property("was_seen"), each.accessibleName()


def test_nothing_is_a_picture_alone(window: Window, qtbot: QtBot) -> None:
    """A theme may hide icons: every button says what it does, in words."""
    for page in PAGE_NAMES:
        window.open_page(page)
        for each in wanted(window):
            if isinstance(each, (QPushButton, QToolButton)):
                assert each.text(), each.accessibleName()
            assert each.accessibleName() or getattr(each, "text", lambda: "")(), each
        for menu in window.findChildren(QToolButton):
            if menu.menu() is not None:
                assert all(one.text() for one in menu.menu().actions())


def focus_on(window: QWidget, text: str) -> QAbstractButton:
    found = next(
        each for each in wanted(window)
        if isinstance(each, QAbstractButton) and text in (each.text(), each.accessibleName())
    )  # fmt: skip
    found.setFocus(Qt.FocusReason.TabFocusReason)
    return found


def test_pages_turn_by_arrows_and_by_numbers(window: Window, qtbot: QtBot) -> None:
    window._list.setFocus()
    key(qtbot, window, Qt.Key.Key_Down, Qt.Key.Key_Down)
    assert window._page() is window.pages["how_much"]
    qtbot.keyClick(window, Qt.Key.Key_5, Qt.KeyboardModifier.ControlModifier)  # type: ignore[no-untyped-call]
    assert window._page() is window.pages["history"]


def test_pausing_finishing_and_resuming(
    window: Window, served: ServedAgent, qtbot: QtBot, until: Until
) -> None:
    window.open_page("now")
    focus_on(window, "Finish the task, then pause")
    key(qtbot, window, Qt.Key.Key_Space)
    until(lambda: any(isinstance(one, Finish) for one in served.asked))
    until(lambda: any(one.text() == "Resume" for one in wanted(window)))  # type: ignore[attr-defined]
    focus_on(window, "Resume")
    key(qtbot, window, Qt.Key.Key_Space)
    until(lambda: any(isinstance(one, Resume) for one in served.asked))
    until(lambda: sum(isinstance(one, QToolButton) for one in wanted(window)) == 2)
    button = focus_on(window, "Pause")
    assert isinstance(button, QToolButton)
    key(qtbot, window, Qt.Key.Key_Down)
    menu = button.menu()
    until(lambda: menu.isVisible())
    qtbot.keyClick(menu, Qt.Key.Key_Down)  # type: ignore[no-untyped-call]
    qtbot.keyClick(menu, Qt.Key.Key_Return)  # type: ignore[no-untyped-call]
    until(lambda: any(isinstance(one, Pause) and one.until_s for one in served.asked))


def test_b607_settings_are_changed_and_undone(
    window: Window, served: ServedAgent, qtbot: QtBot, until: Until
) -> None:
    window.open_page("how_much")
    field = next(each for each in wanted(window) if each.objectName() == "duty.percent")
    field.setFocus()
    key(qtbot, window, Qt.Key.Key_Down)
    until(lambda: served.agent.values["duty.percent"] == 99)
    until(lambda: window._undo.isVisible())
    focus_on(window, "Undo")
    key(qtbot, window, Qt.Key.Key_Space)
    until(lambda: served.agent.values["duty.percent"] == 100)
    window.open_page("when")
    focus_on(window, "Only when I am away: The cards are yours whenever you use the machine.")
    key(qtbot, window, Qt.Key.Key_Down)
    until(lambda: served.agent.values["profile"] == "nights")
    assert any(isinstance(one, SettingsSet) for one in served.asked)


def test_the_doctor_is_asked(
    window: Window, served: ServedAgent, qtbot: QtBot, until: Until
) -> None:
    window.open_page("help")
    focus_on(window, "Look at everything that lending needs")
    key(qtbot, window, Qt.Key.Key_Space)
    until(lambda: any(isinstance(one, Doctor) for one in served.asked))
    until(lambda: any("Free disk space" in one.text() for one in window.findChildren(QLabel)))


@pytest.mark.parametrize("step", STEPS)
def test_tab_reaches_everything_of_the_first_run(
    context: Context, tmp_path: Path, qtbot: QtBot, step: str
) -> None:
    progress = Progress(tmp_path / "first-run")
    wizard = Wizard(context, Autostart("x", tmp_path / "autostart"), progress)
    qtbot.addWidget(wizard)
    wizard.show_items(context.link.items)
    wizard.come_up()
    wizard.open(step)
    qtbot.waitUntil(lambda: QApplication.activeWindow() is wizard)
    assert missed(qtbot, wizard) == []
