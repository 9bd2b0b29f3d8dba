"""The first run as a window of its own: pages, and the way forth, back and out.

Owns: which page is shown, and remembering it. It may be left at any page and goes on there; it
never holds the owner up, and no answer is needed to go on. Must not: keep an answer; each acts at
once, as in the window.
"""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.control.messages import Item
from app.control.texts import _
from app.ui import icons
from app.ui.autostart import Autostart
from app.ui.firstrun.account import AccountStep
from app.ui.firstrun.cards import CardsStep
from app.ui.firstrun.progress import DONE, STEPS, Progress
from app.ui.firstrun.step import Step
from app.ui.firstrun.steps import PrivacyStep, ProfileStep, StartStep, WelcomeStep
from app.ui.pages.page import Context
from app.ui.style import dress, fit

__all__ = ["Wizard"]


class Wizard(QWidget):
    """The pages of the first run.

    Signals:
        left(bool): the owner is done with it (True), or wants to go on another time.
    """

    left = Signal(bool)

    def __init__(self, context: Context, autostart: Autostart, progress: Progress) -> None:
        super().__init__()
        self.setObjectName("firstRun")
        self.setWindowTitle(_("Setting up gpugoblin"))
        self.setWindowIcon(icons.icon("setup"))
        dress(self)
        self._progress = progress
        self._items: Mapping[str, Item] = {}
        self.steps: dict[str, Step] = {
            "welcome": WelcomeStep(context),
            "account": AccountStep(context),
            "cards": CardsStep(context),
            "profile": ProfileStep(context),
            "privacy": PrivacyStep(context),
            "start": StartStep(context, autostart),
        }
        self._stack = QStackedWidget()
        for name in STEPS:
            self._stack.addWidget(self.steps[name])
        self._away = QLabel()
        self._where = QLabel()
        self._later = QPushButton(_("Set up later"))
        self._back = QPushButton(_("Back"))
        self._next = QPushButton()
        self._lay_out()
        known = progress.read()
        self.open(known if known in STEPS else STEPS[0])

    @property
    def step(self) -> str:
        """The page that is shown."""
        return STEPS[self._stack.currentIndex()]

    def open(self, name: str) -> None:
        """Shows a page, and remembers it."""
        self._stack.setCurrentIndex(STEPS.index(name))
        self._progress.keep(name)
        place, last = STEPS.index(name), name == STEPS[-1]
        self._where.setText(_("{n} of {of}").format(n=place + 1, of=len(STEPS)))
        self._back.setVisible(place > 0)
        self._later.setVisible(not last)
        step = self.steps[name]
        step.show_items(self._items)
        self._name_next()
        if self.isVisible():
            step.come_to_front()
        self._next.setFocus()

    def show_items(self, items: Mapping[str, Item], away: str = "") -> None:
        """Shows the agent's items, or why there are none."""
        self._items = items
        self._away.setText(away)
        self._away.setVisible(bool(away) and not items)
        self.steps[self.step].show_items(items)
        self._name_next()

    def come_up(self) -> None:
        """Shows itself in front of others, as far as the desktop allows."""
        self.show()
        self.raise_()
        self.activateWindow()
        self.steps[self.step].come_to_front()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Closing means: another time."""
        event.accept()
        self.hide()  # before it is told: whoever hears it must not take it for shown
        self.left.emit(False)

    def _name_next(self) -> None:
        if self.step == STEPS[-1]:
            text = _("Finish")
        else:
            text = _("Continue") if self.steps[self.step].is_settled else _("Skip this")
        self._next.setText(text)

    def _forth(self) -> None:
        place = STEPS.index(self.step)
        if place + 1 < len(STEPS):
            self.open(STEPS[place + 1])
            return
        self._progress.keep(DONE)
        self.hide()
        self.left.emit(True)

    def _go_back(self) -> None:
        self.open(STEPS[max(0, STEPS.index(self.step) - 1)])

    def _lay_out(self) -> None:
        self._away.setObjectName("effect")
        self._away.setWordWrap(True)
        self._away.hide()
        self._where.setObjectName("quiet")
        self._next.setDefault(True)
        self._later.clicked.connect(self.close)
        self._back.clicked.connect(self._go_back)
        self._next.clicked.connect(self._forth)
        for keys, act in ((Qt.Key.Key_Escape, self.close), ("Alt+Left", self._go_back)):
            QShortcut(QKeySequence(keys), self).activated.connect(act)
        foot = QHBoxLayout()
        foot.setContentsMargins(24, 8, 24, 16)
        for widget in (self._later, self._where):
            foot.addWidget(widget)
        foot.addStretch(1)
        for widget in (self._back, self._next):
            foot.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._away)
        column.addWidget(self._stack, 1)
        column.addLayout(foot)
        fit(self, 660, 560)
        self.setMinimumSize(420, 360)
