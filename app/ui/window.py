"""The window: a list of pages at the left, the page at the right, a line of news at the foot.

Owns: which pages there are, and keeping them up to date only while they are seen. Closing it is not
quitting; the agent and the tray go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QMainWindow,
    QPushButton,
    QStackedWidget,
    QStatusBar,
    QWidget,
)

from app.control.messages import Item
from app.control.texts import _
from app.ui import icons
from app.ui.autostart import Autostart
from app.ui.facts import overview
from app.ui.pages.account import AccountPage
from app.ui.pages.help import HelpPage
from app.ui.pages.history import HistoryPage
from app.ui.pages.labs import LabsPage
from app.ui.pages.now import NowPage
from app.ui.pages.page import Context, Page
from app.ui.pages.privacy import PrivacyPage
from app.ui.pages.settings import HOW_MUCH, SettingsPage
from app.ui.pages.when import WhenPage
from app.ui.style import dress, fit

__all__ = ["PAGE_NAMES", "Window"]

PAGE_NAMES: Final = (
    "now", "when", "how_much", "labs", "history", "privacy", "account", "help",
)  # fmt: skip
NEWS_MS: Final = 12_000
SIDEBAR_SPACE_PX: Final = 56
"""What the style puts around a name."""
MOST_SIDEBAR_PX: Final = 220
SIDEBAR_LINE_PX: Final = 22
"""What the style puts above and below a name."""


class Window(QMainWindow):
    """The one window of the program."""

    def __init__(
        self,
        context: Context,
        autostart: Autostart,
        set_up: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self.setWindowTitle("gpugoblin")
        self.setObjectName("window")
        dress(self)
        self._context = context
        self._items: Mapping[str, Item] = {}
        self._away = ""
        self.pages: dict[str, Page] = {
            "now": NowPage(context),
            "when": WhenPage(context),
            "how_much": SettingsPage(_("How much"), HOW_MUCH, context),
            "labs": LabsPage(context),
            "history": HistoryPage(context),
            "privacy": PrivacyPage(context),
            "account": AccountPage(context, autostart, set_up),
            "help": HelpPage(context),
        }
        self._list = QListWidget()
        self._stack = QStackedWidget()
        self._undo = QPushButton(_("Undo"))
        self._lay_out()
        context.store.changed.connect(self._look_at_undo)
        context.store.refused.connect(self.tell)
        self.open_page("now")

    def show_items(self, items: Mapping[str, Item], away: str = "") -> None:
        """Shows the agent's items, or why there are none."""
        self._items, self._away = items, away
        now = self.pages["now"]
        if isinstance(now, NowPage):
            now.away = away or _("The agent starts.")
        self._refresh()

    def open_page(self, name: str) -> None:
        """Brings a page to the front; an unknown name is the first page."""
        place = PAGE_NAMES.index(name) if name in PAGE_NAMES else 0
        self._list.setCurrentRow(place)

    def tell(self, line: str) -> None:
        """A line of news at the foot, for a while."""
        self.statusBar().showMessage(line, NEWS_MS)

    def come_up(self) -> None:
        """Shows the window in front of others, as far as the desktop allows."""
        self.show()
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.raise_()
        self.activateWindow()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # As wide as its longest name in this language, now that the style is known; a name that
        # would take too much of the window wraps.
        measure = self._list.fontMetrics()
        widest = max(measure.horizontalAdvance(page.title) for page in self.pages.values())
        wanted = widest + SIDEBAR_SPACE_PX
        width = min(wanted, MOST_SIDEBAR_PX)
        self._list.setFixedWidth(width)
        for place in range(self._list.count()):
            # The list measures before it knows its width, and would cut a second line off.
            item, room = self._list.item(place), QSize(width - SIDEBAR_SPACE_PX, 1000)
            text = measure.boundingRect(
                QRect(QPoint(), room), Qt.TextFlag.TextWordWrap, item.text()
            )
            item.setSizeHint(QSize(width, text.height() + SIDEBAR_LINE_PX))
        self._turned(self._list.currentRow())

    def closeEvent(self, event: QCloseEvent) -> None:
        self.hide()
        event.ignore()

    def _turned(self, place: int) -> None:
        self._stack.setCurrentIndex(place)
        self._refresh()
        if self.isVisible():
            self._page().come_to_front()

    def _page(self) -> Page:
        return self.pages[PAGE_NAMES[max(0, self._list.currentRow())]]

    def _refresh(self) -> None:
        """Only the page that is seen is brought up to date."""
        view = overview(self._items, self._context.now_s(), self._away)
        self.setWindowIcon(icons.icon(view.state))
        self._page().show_items(self._items)

    def _look_at_undo(self) -> None:
        self._undo.setVisible(self._context.store.can_undo)

    def _lay_out(self) -> None:
        self._list.setObjectName("sidebar")
        self._list.setAccessibleName(_("Pages"))
        self._list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._list.setWordWrap(True)
        self._list.setResizeMode(QListWidget.ResizeMode.Adjust)
        self._list.setTextElideMode(Qt.TextElideMode.ElideNone)
        for place, name in enumerate(PAGE_NAMES):
            page = self.pages[name]
            self._list.addItem(page.title)
            self._stack.addWidget(page)
            shortcut = QShortcut(QKeySequence(f"Ctrl+{place + 1}"), self)
            shortcut.activated.connect(lambda place=place: self._list.setCurrentRow(place))
        self._list.currentRowChanged.connect(self._turned)
        body = QWidget()
        row = QHBoxLayout(body)
        row.setContentsMargins(0, 8, 0, 0)
        row.addWidget(self._list)
        row.addWidget(self._stack, 1)
        self.setCentralWidget(body)
        bar = QStatusBar()
        self._undo.setVisible(False)
        self._undo.clicked.connect(self._context.store.undo)
        hint = QLabel(_("Changes act at once."))
        bar.addPermanentWidget(hint)
        bar.addPermanentWidget(self._undo)
        self.setStatusBar(bar)
        fit(self, 980, 700)
        self.setMinimumSize(640, 420)
