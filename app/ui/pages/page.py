"""What every page is given and is: a title, a column that scrolls, and the agent's items.

Owns: `Page`, `Context` and the making of headings and texts. Must not: hold a fact.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.control.messages import Item
from app.ui.actions import Actions
from app.ui.link import Link
from app.ui.store import Store

__all__ = ["Context", "Page", "heading", "paragraph"]


@dataclass(frozen=True, slots=True)
class Context:
    """What pages work with. `now_s`: the wall clock; `tell`: shows a line at the foot."""

    link: Link
    store: Store
    actions: Actions
    tell: Callable[[str], None]
    now_s: Callable[[], float] = time.time


class Page(QScrollArea):
    """A page of the window. Subclasses fill `column` and override `show_items`."""

    def __init__(self, title: str, context: Context) -> None:
        super().__init__()
        self.title = title
        self.context = context
        self.setAccessibleName(title)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        inner = QWidget()
        inner.setObjectName("page")
        self.column = QVBoxLayout(inner)
        self.column.setContentsMargins(24, 16, 24, 24)
        self.column.setSpacing(8)
        name = QLabel(title)
        name.setObjectName("pageTitle")
        self.column.addWidget(name)
        self.setWidget(inner)

    def show_items(self, items: Mapping[str, Item]) -> None:
        """Shows what there is to see of the agent now; {} while there is none."""

    def focusNextPrevChild(self, forth: bool) -> bool:
        """Tab goes on, and what has the focus then is seen, a large field too."""
        moved = super().focusNextPrevChild(forth)
        here = self.focusWidget()
        if here is not None and here is not self:
            self.ensureWidgetVisible(here)
        return moved

    def come_to_front(self) -> None:
        """The page is looked at from now on: what is asked for only then is asked for."""


def heading(text: str) -> QLabel:
    """The heading of a part of a page."""
    label = QLabel(text)
    label.setObjectName("heading")
    return label


def paragraph(text: str) -> QLabel:
    """A text that wraps and can be selected; never markup, since others wrote some of it."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse
        | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return label
