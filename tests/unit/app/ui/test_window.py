"""The window as a person uses it: pages, keys, names for screen readers, bad news."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.ui.autostart import Autostart
from app.ui.facts import overview
from app.ui.pages.now import NowPage
from app.ui.pages.page import Context
from app.ui.window import PAGE_NAMES, Window
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def window(context: Context, tmp_path: Path, qtbot: QtBot) -> Window:
    made = Window(context, Autostart("gpugoblin app", tmp_path))
    qtbot.addWidget(made, before_close_func=lambda _w: made.hide())
    context.link.changed.connect(made.show_items)
    made.show_items(context.link.items)
    made.show()
    return made


def texts(window: Window, page: str) -> str:
    from PySide6.QtWidgets import QLabel

    return "\n".join(label.text() for label in window.pages[page].findChildren(QLabel))


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_every_page_opens_by_name_and_by_key(window: Window, qtbot: QtBot, name: str) -> None:
    window.open_page(name)
    assert window._stack.currentWidget() is window.pages[name]
    window.open_page("now")
    window.activateWindow()
    key = Qt.Key(Qt.Key.Key_1.value + PAGE_NAMES.index(name))
    qtbot.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
    assert window._stack.currentWidget() is window.pages[name]


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_b147_every_control_has_a_name_and_a_role(window: Window, name: str) -> None:
    window.open_page(name)
    controls = window.pages[name].findChildren(QWidget)
    kinds = (QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit)
    checked = 0
    for control in controls:
        if not isinstance(control, kinds) or not control.isVisibleTo(window):
            continue
        if control.objectName().startswith("qt_") or (
            not control.objectName() and (isinstance(control.parent(), QAbstractSpinBox))
        ):
            continue  # a part of Qt's own
        face = QAccessible.queryAccessibleInterface(control)
        assert face is not None
        assert face.text(QAccessible.Text.Name), (name, type(control), control.objectName())
        assert face.role() != QAccessible.Role.NoRole
        checked += 1
    if name in ("now", "when", "how_much", "labs", "history", "help"):
        assert checked > 0


def test_what_the_agent_says_is_shown_at_once(
    window: Window, served: ServedAgent, until: Until
) -> None:
    for step in (1, 2):
        served.step(step)
    until(lambda: "Computing on 2 of 2 cards" in texts(window, "now"))


def test_a_pause_button_pauses_its_card(window: Window, until: Until, qtbot: QtBot) -> None:
    now = window.pages["now"]
    assert isinstance(now, NowPage)
    qtbot.mouseClick(now._panels[1]._pause, Qt.MouseButton.LeftButton)
    until(lambda: now._panels[1]._resume.isVisible())
    assert not now._panels[0]._resume.isVisible()
    qtbot.mouseClick(now._panels[1]._resume, Qt.MouseButton.LeftButton)
    until(lambda: now._panels[1]._pause.isVisible())


def test_an_agent_that_is_away_is_said_with_the_next_step(window: Window) -> None:
    window.show_items({}, "No agent listens at x. Start one.")
    assert "No agent listens at x. Start one." in texts(window, "now")
    for name in PAGE_NAMES:
        window.open_page(name)


def test_b3052_b3638_b593_closing_is_not_quitting(window: Window) -> None:
    window.close()
    assert not window.isVisible()
    window.come_up()
    assert window.isVisible()


def test_the_smallest_screen_holds_it(window: Window) -> None:
    assert window.minimumSizeHint().width() <= 800
    assert window.minimumSizeHint().height() <= 600
    window.resize(800, 600)
    for name in PAGE_NAMES:
        window.open_page(name)
        assert window.width() == 800


def test_undo_shows_when_there_is_something_to_undo(
    window: Window, context: Context, until: Until, qtbot: QtBot
) -> None:
    assert not window._undo.isVisible()
    context.store.set({"heat.card_stop_c": 70})
    until(window._undo.isVisible)
    qtbot.mouseClick(window._undo, Qt.MouseButton.LeftButton)
    until(lambda: context.store.values["heat.card_stop_c"] == 83)


def test_a_refused_change_is_told_and_shown_as_it_was(
    window: Window, context: Context, served: ServedAgent, until: Until
) -> None:
    served.agent.revision += 1
    context.store.set({"heat.card_stop_c": 70})
    until(lambda: bool(window.statusBar().currentMessage()))
    assert context.store.values["heat.card_stop_c"] == 83


def test_only_the_page_in_front_is_brought_up_to_date(
    window: Window, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    for name, page in window.pages.items():
        monkeypatch.setattr(page, "show_items", lambda _items, name=name: seen.append(name))
    window.open_page("help")
    seen.clear()
    window.show_items(context.link.items)
    assert seen == ["help"]


def test_the_icon_follows_the_state(window: Window, context: Context) -> None:
    assert overview(context.link.items, context.now_s()).state == "resting"
    assert not window.windowIcon().isNull()
