"""The window's program put together: one instance, its agent, tray and window.

Owns: their life. The window is made when it is first asked for, so that the tray alone stays small.
Must not: block its thread; the agent may be away, old or hung.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.control.messages import Item
from app.ui.actions import Actions
from app.ui.link import Link
from app.ui.tray import Doors, Tray

if TYPE_CHECKING:
    from app.ui.store import Store
    from app.ui.window import Window

__all__ = ["Program", "Setup"]

NO_TRAY_MS: Final = 10_000
"""So long is a tray waited for before the window opens in its place."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How the program runs.

    Args:
        directory: of the agent's control socket.
        start_agent: starts an agent when none answers; None leaves it to others.
        in_background: begins in the tray, without a window.
        autostart_command: starts the program at login.
    """

    directory: Path
    start_agent: Callable[[], None] | None
    in_background: bool
    autostart_command: str


class Program(QObject):
    """Everything that the window's process has."""

    def __init__(self, application: QApplication, setup: Setup) -> None:
        super().__init__(application)
        self._application = application
        self._setup = setup
        self._items: Mapping[str, Item] = {}
        self._away = ""
        self._has_tried_agent = False
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
        if not self._setup.in_background:
            self.open()
        else:
            QTimer.singleShot(NO_TRAY_MS, self._look_for_tray)

    def open(self, page: str = "") -> Window:
        """The window, in front, with a page."""
        if self.window is None:
            self.window = self._made_window()
        if page:
            self.window.open_page(page)
        self.window.come_up()
        return self.window

    def _made_window(self) -> Window:
        # Imported here: the tray alone comes sooner and stays smaller without the pages.
        from app.ui.autostart import Autostart
        from app.ui.pages.page import Context
        from app.ui.store import Store
        from app.ui.window import Window

        self.store = Store(self.link, self)
        context = Context(self.link, self.store, self.actions, self._tell)
        window = Window(context, Autostart(self._setup.autostart_command))
        window.show_items(self._items, self._away)
        self.store.read()
        return window

    def quit(self) -> None:
        """Ends the window's program. An agent that we started goes on: it is the one that lends."""
        self._application.quit()

    def _changed(self, items: Mapping[str, Item]) -> None:
        self._items, self._away = items, ""
        self._show()

    def _lost(self, why: str) -> None:
        self._items, self._away = {}, why
        if not self._has_tried_agent and self._setup.start_agent is not None:
            self._has_tried_agent = True
            self._setup.start_agent()
        self._show()

    def _show(self) -> None:
        self.tray.show(self._items, self._away)
        if self.window is not None and self.window.isVisible():
            self.window.show_items(self._items, self._away)

    def _look_for_tray(self) -> None:
        if not self.tray.is_shown and self.window is None:
            # Nobody would find us otherwise; minimised, so that it does not jump at anybody.
            self.open().showMinimized()

    def _tell(self, line: str) -> None:
        if self.window is not None:
            self.window.tell(line)

    def _end(self) -> None:
        self.link.close()
        self.tray.close()
