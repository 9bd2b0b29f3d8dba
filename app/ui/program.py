"""The window's program put together: one instance, its agent, tray and window.

Owns: their life. The window is made when it is first asked for, so that the tray alone stays small.
Must not: block its thread; the agent may be away, old or hung.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.control.messages import AgentItem, Item
from app.control.texts import _
from app.ui.actions import Actions
from app.ui.facts import overview
from app.ui.firstrun.progress import DONE, Progress
from app.ui.link import Link
from app.ui.notify import Budget, Notifier
from app.ui.tray import Doors, Tray

if TYPE_CHECKING:
    from app.ui.autostart import Autostart
    from app.ui.firstrun.wizard import Wizard
    from app.ui.pages.page import Context
    from app.ui.store import Store
    from app.ui.window import Window

__all__ = ["Program", "Setup"]

NO_TRAY_MS: Final = 10_000
"""So long is a tray waited for before its absence is told."""
AGENT_MS: Final = 4_000
"""So long may a new agent take to say whether it is enrolled, before the first run begins."""
TROUBLE_MS: Final = 120_000
"""So long must a trouble last before it is told."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How the program runs.

    Args:
        directory: of the agent's control socket.
        start_agent: starts an agent when none answers; None leaves it to others.
        in_background: begins in the tray, without a window.
        autostart_command: starts the program at login.
        progress: how far the first run came.
        budget: what was told of late.
        notice: what the window says at its foot when it first opens.
    """

    directory: Path
    start_agent: Callable[[], None] | None
    in_background: bool
    autostart_command: str
    progress: Progress = field(default_factory=Progress)
    budget: Budget = field(default_factory=Budget)
    notice: str = ""


class Program(QObject):
    """Everything that the window's process has."""

    def __init__(self, application: QApplication, setup: Setup) -> None:
        super().__init__(application)
        self._application = application
        self._setup = setup
        self._items: Mapping[str, Item] = {}
        self._away = ""
        self._has_tried_agent = False
        self._wants_window = False
        self._is_trouble_told = False
        self._trouble = QTimer(self)
        self._trouble.setSingleShot(True)
        self._trouble.timeout.connect(self._tell_trouble)
        self.notifier = Notifier(setup.budget, self)
        self.notifier.clicked.connect(self.open)
        self.notifier.untold.connect(self._untold)
        self.wizard: Wizard | None = None
        self.window: Window | None = None
        self.store: Store | None = None
        self.link = Link(setup.directory, self)
        self.actions = Actions(self.link, self._tell)
        self.tray = Tray(self.actions, Doors(self.open, self.quit), self)
        self.link.changed.connect(self._changed)
        self.link.away.connect(self._lost)
        self.link.show_page.connect(self.open)
        application.setQuitOnLastWindowClosed(False)
        application.aboutToQuit.connect(self._end)

    def begin(self) -> None:
        """Connects; opens the window unless it shall stay in the background."""
        self.link.open()
        if self._setup.in_background:
            QTimer.singleShot(NO_TRAY_MS, self._look_for_tray)
        elif self._setup.progress.read() == DONE:
            self.open()
        else:
            self._wants_window = True
            if not self._consider_first_run():
                QTimer.singleShot(AGENT_MS, self._open_first)

    def open(self, page: str = "") -> Window:
        """The window, in front, with a page; the first run instead, while it is not done."""
        self._wants_window = False
        self.link.look()
        if self.window is None:
            self.window = self._made_window()
        if not page and self.wizard is not None and self.wizard.isVisible():
            self.wizard.come_up()
            return self.window
        if page:
            self.window.open_page(page)
        self.window.come_up()
        return self.window

    def open_first_run(self) -> Wizard:
        """The first run, in front, on the page where it was left."""
        self._wants_window = False
        if self.wizard is None:
            # Imported here, as the window is.
            from app.ui.firstrun.wizard import Wizard

            self.wizard = Wizard(self._context(), self._autostart(), self._setup.progress)
            self.wizard.left.connect(lambda _is_done: self.open())
        self.wizard.show_items(self._items, self._away)
        self.wizard.come_up()
        return self.wizard

    def _consider_first_run(self) -> bool:
        """Begins or goes on with the first run where that is due; False when the agent must say.

        A machine that is enrolled already, by command or by an older version, needs none.
        """
        begun = self._setup.progress.read()
        agent = self._items.get("agent")
        if not begun and (not isinstance(agent, AgentItem) or agent.state == "ending"):
            return False
        if not begun and isinstance(agent, AgentItem) and agent.state != "not_enrolled":
            self._setup.progress.keep(DONE)
            self.open()
        else:
            self.open_first_run()
        return True

    def _open_first(self) -> None:
        """No agent has said anything: whoever sees this program for the first time is led."""
        if self._wants_window:
            self.open_first_run()

    def _context(self) -> Context:
        from app.ui.pages.page import Context
        from app.ui.store import Store

        if self.store is None:
            self.store = Store(self.link, self)
            self.store.read()
        return Context(self.link, self.store, self.actions, self._tell)

    def _autostart(self) -> Autostart:
        from app.ui.autostart import Autostart

        return Autostart(self._setup.autostart_command)

    def _made_window(self) -> Window:
        # Imported here: the tray alone comes sooner and stays smaller without the pages.
        from app.ui.window import Window

        window = Window(self._context(), self._autostart(), self.open_first_run)
        window.show_items(self._items, self._away)
        if self._setup.notice:
            window.tell(self._setup.notice)
        return window

    def quit(self) -> None:
        """Ends the window's program. An agent that we started goes on: it is the one that lends."""
        self._application.quit()

    def _changed(self, items: Mapping[str, Item]) -> None:
        self._items, self._away = items, ""
        self._show()
        if self._wants_window:
            self._consider_first_run()

    def _lost(self, why: str) -> None:
        self._items, self._away = {}, why
        if not self._has_tried_agent and self._setup.start_agent is not None:
            self._has_tried_agent = True
            self._setup.start_agent()
        self._show()

    def _show(self) -> None:
        self.tray.show(self._items, self._away)
        for shown in (self.window, self.wizard):
            if shown is not None and shown.isVisible():
                shown.show_items(self._items, self._away)
        self._look_for_trouble()

    def _look_for_tray(self) -> None:
        if not self.tray.is_shown and self.window is None and self.wizard is None:
            self.notifier.tell(
                "no_tray",
                _("gpugoblin runs in the background"),
                _("This desktop has no tray. Open gpugoblin from the applications menu to see what"
                  " is lent, and to pause."),
            )  # fmt: skip

    def _untold(self, title: str, line: str) -> None:
        """There is no notification server: the tray's own message, or the window in its place."""
        if self.tray.tell(title, line) or self.window is not None:
            return
        # Nobody would find us otherwise; minimised, so that it does not jump at anybody.
        self.open().showMinimized()

    def _look_for_trouble(self) -> None:
        state = overview(self._items, time.time(), self._away).state
        if state != "trouble":
            self._trouble.stop()
        elif not self._trouble.isActive() and not self._is_trouble_told:
            self._trouble.start(TROUBLE_MS)
        self._is_trouble_told &= state == "trouble"

    def _tell_trouble(self) -> None:
        view = overview(self._items, time.time(), self._away)
        if view.state == "trouble":
            self._is_trouble_told = True
            self.notifier.tell("trouble", view.title, view.line)

    def _tell(self, line: str) -> None:
        if self.window is not None:
            self.window.tell(line)

    def _end(self) -> None:
        self.notifier.close()
        self.link.close()
        self.tray.close()
