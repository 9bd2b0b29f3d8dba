"""The page Labs: for whom the cards compute, and whom the owner accepts or refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.control import words
from app.control.messages import GrantItem, Item
from app.control.texts import _
from app.ui.facts import labs_of
from app.ui.pages.page import Context, heading, paragraph
from app.ui.pages.settings import LABS, SettingsPage

__all__ = ["LabsPage"]


class _Lab(NamedTuple):
    """A lab that has a grant."""

    lab: str
    until_s: float
    name: str
    about: str


class LabsPage(SettingsPage):
    """Labs that have a grant now, with a switch for each; below, the lists as settings."""

    def __init__(self, context: Context) -> None:
        super().__init__(_("Labs"), LABS, context)
        self._shown: tuple[_Lab, ...] = ()
        self._now = QWidget()
        self._list = QVBoxLayout(self._now)
        self._list.setContentsMargins(0, 0, 0, 0)
        self.column.insertWidget(1, paragraph(_(
            "Every lab was reviewed before it could ask for cards. What each computes stands on the"
            " coordinator's page Labs. A lab sees a pseudonym, the age of your account, what card"
            " you have, and the address from which you connect to it."
        )))  # fmt: skip
        self.column.insertWidget(2, heading(_("Working for")))
        self.column.insertWidget(3, self._now)
        context.store.changed.connect(lambda: self._fill(self._shown))
        self._fill(())

    def show_items(self, items: Mapping[str, Item]) -> None:
        super().show_items(items)
        until: dict[str, float] = {}
        for item in items.values():
            if isinstance(item, GrantItem):
                until[item.lab] = max(item.until_s, until.get(item.lab, 0.0))
        labs = labs_of(items)
        shown = tuple(_Lab(lab, until_s, *labs[lab]) for lab, until_s in sorted(until.items()))
        if shown != self._shown:
            self._fill(shown)

    def _fill(self, shown: tuple[_Lab, ...]) -> None:
        self._shown = shown
        while (item := self._list.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()  # it goes with the next turn of the loop, and would be seen till then
                widget.deleteLater()
        if not shown:
            self._list.addWidget(paragraph(_("No lab has a grant for a card of yours now.")))
        for lab in shown:
            self._list.addWidget(self._row(lab))

    def _row(self, lab: _Lab) -> QWidget:
        row = QWidget()
        column = QVBoxLayout(row)
        column.setContentsMargins(0, 2, 0, 6)
        when = words.when(lab.until_s, self.context.now_s())
        column.addWidget(paragraph(_("{lab}, until {when}").format(lab=lab.name, when=when)))
        if lab.about:
            about = paragraph(lab.about)
            about.setObjectName("quiet")
            column.addWidget(about)
        button = QPushButton(_("Refuse this lab"))
        button.setAccessibleName(_("Refuse {lab}").format(lab=lab.name))
        button.clicked.connect(lambda: self._refuse(lab.lab))
        line = QHBoxLayout()
        line.addWidget(button)
        line.addStretch(1)
        column.addLayout(line)
        return row

    def _refuse(self, lab: str) -> None:
        refused = self.context.store.values.get("labs.refuse", ())
        if isinstance(refused, tuple) and lab not in refused:
            self.context.store.set({"labs.refuse": (*refused, lab)})
