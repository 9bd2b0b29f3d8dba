"""One card on the page Now: its state, why, its task, its sensors, and a button for each act."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.control.texts import _
from app.ui import icons
from app.ui.actions import Actions
from app.ui.facts import CardView

__all__ = ["CardPanel"]

_ICON_PX = 40
FACTS_A_ROW = 2
"""Three are wider than a window of 800 in Russian."""


class CardPanel(QFrame):
    """Shows a `CardView`, and is told a new one as often as it changes."""

    def __init__(self, card: int, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self._card = card
        self._actions = actions
        self._facts: dict[str, QLabel] = {}
        self._picture = QLabel()
        self._name = QLabel()
        self._name.setObjectName("cardName")
        self._title = QLabel()
        self._title.setObjectName("cardState")
        self._why = QLabel()
        self._why.setWordWrap(True)
        self._why.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._task = QLabel()
        self._task.setWordWrap(True)
        self._about = QLabel()
        self._about.setObjectName("quiet")
        self._about.setWordWrap(True)
        for label in (self._name, self._title, self._why, self._task, self._about):
            label.setTextFormat(Qt.TextFormat.PlainText)  # others wrote some of it
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(14)
        self._lay_out()

    def show_view(self, view: CardView) -> None:
        """Shows this; widgets are kept, so that focus and selection stay."""
        self._picture.setPixmap(icons.pixmap(view.state, _ICON_PX))
        self._name.setText(view.name)
        self._title.setText(view.title)
        self._why.setText(view.why)
        self._task.setText(view.task)
        self._task.setVisible(bool(view.task))
        self._about.setText(view.about)
        self._about.setVisible(bool(view.about))
        self._resume.setVisible(view.is_paused)
        self._pause.setVisible(not view.is_paused)
        self._finish.setVisible(not view.is_paused)
        self.setAccessibleName(f"{view.name}: {view.title}")
        self.setAccessibleDescription(view.why)
        if list(self._facts) != [name for name, _value in view.facts]:
            self._rebuild_facts([name for name, _value in view.facts])
        for name, value in view.facts:
            self._facts[name].setText(value)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self._picture)
        titles = QVBoxLayout()
        titles.setSpacing(0)
        titles.addWidget(self._name)
        titles.addWidget(self._title)
        head.addLayout(titles, 1)
        column = QVBoxLayout(self)
        column.addLayout(head)
        column.addWidget(self._why)
        column.addWidget(self._task)
        column.addWidget(self._about)
        column.addLayout(self._grid)
        column.addLayout(self._buttons())

    def _buttons(self) -> QHBoxLayout:
        act, card = self._actions, self._card
        row = QHBoxLayout()
        self._resume = _button(_("Resume"), lambda: act.resume(card))
        self._pause = _PauseButton()
        self._pause.setText(_("Pause"))
        self._pause.setAccessibleName(_("Pause"))
        self._pause.setAccessibleDescription(_("The arrow key down opens more choices."))
        self._pause.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self._pause.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        self._pause.clicked.connect(lambda: act.pause(card))
        menu = QMenu(self._pause)
        menu.addAction(_("For an hour")).triggered.connect(lambda: act.pause_hour(card))
        menu.addAction(_("Until tomorrow")).triggered.connect(
            lambda: act.pause_until_tomorrow(card)
        )
        menu.addAction(_("Until I resume")).triggered.connect(lambda: act.pause(card))
        menu.addAction(_("Stop lending")).triggered.connect(lambda: act.stop(card))
        self._pause.setMenu(menu)
        self._finish = _button(_("Finish the task, then pause"), lambda: act.finish(card))
        for widget in (self._resume, self._pause, self._finish):
            row.addWidget(widget)
        row.addStretch(1)
        return row

    def _rebuild_facts(self, names: list[str]) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()  # it goes with the next turn of the loop, and would be seen till then
                widget.deleteLater()
        self._facts.clear()
        for place, name in enumerate(names):
            row, column = divmod(place, FACTS_A_ROW)
            label, value = QLabel(name), QLabel()
            label.setObjectName("quiet")
            self._grid.addWidget(label, row, column * 2)
            self._grid.addWidget(value, row, column * 2 + 1)
            self._grid.setColumnStretch(column * 2 + 1, 1)
            self._facts[name] = value


class _PauseButton(QToolButton):
    """A button whose arrow opens its menu; the arrow key does so, too."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Down:
            # Not `showMenu`, which would hold this event until the menu is closed.
            self.menu().popup(self.mapToGlobal(self.rect().bottomLeft()))
        else:
            super().keyPressEvent(event)


def _button(text: str, act: Callable[[], None]) -> QPushButton:
    button = QPushButton(text)
    button.clicked.connect(lambda: act())
    return button
