"""The icon in the tray, and its menu: everything that is done daily, in two clicks.

Owns: the icon's life. A tray host may come late, restart or never come; an icon that was shown
before there was a host never registers, so it is made when there is one, and made again when that
went away. Must not: be the only door; the window can do all that the menu can.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app.control.messages import CardItem, Item
from app.control.texts import _
from app.ui import icons
from app.ui.actions import Actions
from app.ui.facts import Overview, card_view, cards_of, overview

__all__ = ["Doors", "Tray"]

LOOK_MS: Final = 10_000
"""Time between two looks for a tray host while there is no icon: six a minute, and none after."""

MAX_TIP: Final = 200


@dataclass(frozen=True, slots=True)
class Doors:
    """What the menu opens."""

    open_window: Callable[[], object]
    quit_ui: Callable[[], None]


class Tray(QObject):
    """The tray icon, when there is a tray."""

    def __init__(self, actions: Actions, doors: Doors, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._actions = actions
        self._doors = doors
        self._items: Mapping[str, Item] = {}
        self._away = _("The agent starts.")
        self._icon: QSystemTrayIcon | None = None
        self._menu = QMenu()
        self._below: list[QMenu] = []
        self._shape: tuple[object, ...] = ()
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self._look)
        self._timer.start()
        self._look()

    @property
    def is_shown(self) -> bool:
        return self._icon is not None and self._icon.isVisible()

    @property
    def menu(self) -> QMenu:
        return self._menu

    def show(self, items: Mapping[str, Item], away: str = "") -> None:
        """Shows these items, or why there are none."""
        self._items, self._away = items, away
        self._paint()

    def tell(self, title: str, line: str) -> bool:
        """The tray's own message, for desktops without a notification server."""
        if self._icon is None or not self._icon.supportsMessages():
            return False
        self._icon.showMessage(title, line)
        return True

    def close(self) -> None:
        self._timer.stop()
        if self._icon is not None:
            self._icon.hide()
            self._icon.deleteLater()
            self._icon = None
        self._menu.deleteLater()

    def _look(self) -> None:
        if QSystemTrayIcon.isSystemTrayAvailable():
            if self._icon is None:
                self._icon = QSystemTrayIcon(self)
                self._icon.setContextMenu(self._menu)
                self._icon.activated.connect(self._clicked)
                self._paint()
                self._icon.show()
                # Qt registers again by itself when the host restarts from now on.
                self._timer.stop()
        elif self._icon is not None:
            self._icon.deleteLater()
            self._icon = None

    def _clicked(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason == QSystemTrayIcon.ActivationReason.Trigger:
            self._doors.open_window()

    def _paint(self) -> None:
        view = overview(self._items, time.time(), self._away)
        cards = cards_of(self._items)
        if self._icon is not None:
            self._icon.setIcon(icons.icon(view.state))
            self._icon.setToolTip(f"gpugoblin: {view.title}\n{view.line}"[:MAX_TIP])
        shape = (view.title, view.state, tuple((c.card, c.name, _owner_paused(c)) for c in cards))
        if shape != self._shape:
            self._shape = shape
            self._fill(view, cards)

    def _fill(self, view: Overview, cards: list[CardItem]) -> None:
        menu = self._menu
        menu.clear()
        for below in self._below:  # clearing takes them out and leaves them alive
            below.deleteLater()
        self._below.clear()
        head = QAction(view.title, menu)
        head.setEnabled(False)
        menu.addAction(head)
        menu.addSeparator()
        if cards:
            if all(map(_owner_paused, cards)):
                self._add(menu, _("Resume"), self._actions.resume)
            else:
                self._add_pauses(menu, ())
            if len(cards) > 1:
                menu.addSeparator()
                for card in cards:
                    self._add_card(menu, card)
            menu.addSeparator()
        self._add(menu, _("Open gpugoblin"), self._doors.open_window)
        self._add(menu, _("Quit"), self._doors.quit_ui)

    def _add_card(self, menu: QMenu, card: CardItem) -> None:
        view = card_view(card, time.time())
        below = menu.addMenu(icons.icon(view.state), view.name)
        self._below.append(below)
        if view.is_paused:
            self._add(below, _("Resume"), lambda: self._actions.resume(card.card))
        else:
            self._add_pauses(below, (card.card,))

    def _add_pauses(self, menu: QMenu, cards: tuple[int, ...]) -> None:
        act = self._actions
        self._add(menu, _("Pause for an hour"), lambda: act.pause_hour(*cards))
        self._add(menu, _("Pause until tomorrow"), lambda: act.pause_until_tomorrow(*cards))
        self._add(menu, _("Pause until I resume"), lambda: act.pause(*cards))
        self._add(menu, _("Finish the task, then pause"), lambda: act.finish(*cards))
        self._add(menu, _("Stop lending"), lambda: act.stop(*cards))

    @staticmethod
    def _add(menu: QMenu, text: str, act: Callable[[], object]) -> None:
        action = QAction(text, menu)
        action.triggered.connect(lambda: act())
        menu.addAction(action)


def _owner_paused(card: CardItem) -> bool:
    return card_view(card, 0.0).is_paused
