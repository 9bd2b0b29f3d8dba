"""The page Now: what every card does, why, and the buttons to change it."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout

from app.control import words
from app.control.messages import Item, NoticeItem
from app.control.texts import _
from app.ui import icons
from app.ui.facts import card_view, cards_of, labs_of, notice_line, overview, totals_line
from app.ui.pages.page import Context, Page, heading, paragraph
from app.ui.widgets.card import CardPanel

__all__ = ["NowPage"]

NOTICES = 6
_ICON_PX = 56


class NowPage(Page):
    """Headline, cards, and what was told lately."""

    def __init__(self, context: Context) -> None:
        super().__init__(_("Now"), context)
        self.away = _("The agent starts.")
        self._panels: dict[int, CardPanel] = {}
        self._picture = QLabel()
        self._headline = QLabel()
        self._headline.setObjectName("headline")
        self._headline.setWordWrap(True)
        self._line = paragraph("")
        self._pause = QPushButton(_("Pause all"))
        self._pause.clicked.connect(lambda: context.actions.pause())
        self._hour = QPushButton(_("Pause for an hour"))
        self._hour.clicked.connect(lambda: context.actions.pause_hour())
        self._resume = QPushButton(_("Resume all"))
        self._resume.clicked.connect(lambda: context.actions.resume())
        self._cards = QVBoxLayout()
        self._totals = paragraph("")
        self._totals.setObjectName("quiet")
        self._notices_heading = heading(_("Lately"))
        self._notices = paragraph("")
        self._lay_out()

    def show_items(self, items: Mapping[str, Item]) -> None:
        now_s = self.context.now_s()
        view = overview(items, now_s, self.away if not items else "")
        self._picture.setPixmap(icons.pixmap(view.state, _ICON_PX))
        self._headline.setText(view.title)
        self._line.setText(view.line)
        cards = cards_of(items)
        labs = labs_of(items)
        views = [card_view(card, now_s, labs) for card in cards]
        for known in set(self._panels) - {one.card for one in views}:
            self._panels.pop(known).deleteLater()
        for place, one in enumerate(views):
            if one.card not in self._panels:
                panel = CardPanel(one.card, self.context.actions)
                self._panels[one.card] = panel
                self._cards.insertWidget(place, panel)
            self._panels[one.card].show_view(one)
        paused = bool(views) and all(one.is_paused for one in views)
        self._pause.setVisible(bool(views) and not paused)
        self._hour.setVisible(bool(views) and not paused)
        self._resume.setVisible(any(one.is_paused for one in views))
        self._totals.setText(totals_line(items))
        self._totals.setVisible(bool(self._totals.text()))
        self._show_notices(items)

    def _show_notices(self, items: Mapping[str, Item]) -> None:
        found = [item for item in items.values() if isinstance(item, NoticeItem)]
        lines = [
            f"{words.clock_time(one.at_s)}  {notice_line(one)}"
            for one in sorted(found, key=lambda one: one.at_s)[-NOTICES:]
        ]
        self._notices.setText("\n".join(reversed(lines)))
        self._notices.setVisible(bool(lines))
        self._notices_heading.setVisible(bool(lines))

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self._picture)
        titles = QVBoxLayout()
        titles.addWidget(self._headline)
        titles.addWidget(self._line)
        head.addLayout(titles, 1)
        buttons = QHBoxLayout()
        for widget in (self._pause, self._hour, self._resume):
            buttons.addWidget(widget)
        buttons.addStretch(1)
        self.column.addLayout(head)
        self.column.addLayout(buttons)
        self.column.addLayout(self._cards)
        self.column.addWidget(self._totals)
        self.column.addWidget(self._notices_heading)
        self.column.addWidget(self._notices)
        self.column.addStretch(1)
