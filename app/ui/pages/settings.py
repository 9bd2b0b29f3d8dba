"""Pages of settings, made from what the agent declares.

Owns: which settings stand on which page and in which group. A setting that only the file can change
is not shown. Must not: know what a setting does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from PySide6.QtWidgets import QLabel, QVBoxLayout

from app.control.messages import Item, SettingItem
from app.control.texts import _
from app.ui.live import live_line
from app.ui.pages.page import Context, Page, heading, paragraph
from app.ui.widgets.setting import SettingRow

__all__ = ["HOW_MUCH", "LABS", "WHEN", "SettingsPage", "groups_of"]

WHEN: Final = (
    ("Idle", ("away.",)),
    ("Hours", ("hours.", "price.dear_hours")),
    ("Games and other programs", ("games.", "foreign.", "calm.")),
    ("Heat", ("heat.",)),
    ("Battery", ("battery.",)),
    ("Network", ("network.",)),
)
HOW_MUCH: Final = (
    ("Speed and power", ("duty.", "power.")),
    ("Cards", ("cards.", "card_memory.")),
    ("Processor", ("processor.", "load.")),
    ("Memory and disk", ("memory.", "disk.", "cache.", "results.", "queue.")),
    ("Costs", ("price.",)),
    ("Walls", ("sandbox.",)),
    ("Newer versions", ("updates.",)),
)
LABS: Final = (("Which labs", ("labs.",)),)

Groups = Sequence[tuple[str, Sequence[str]]]


def groups_of(
    settings: Sequence[SettingItem], groups: Groups
) -> list[tuple[str, list[SettingItem]]]:
    """The live settings of each group, in the order in which they are declared.

    A setting belongs to the group whose prefix of its name is the longest, here or on another page.
    """
    every = [prefix for page in (WHEN, HOW_MUCH, LABS) for _title, some in page for prefix in some]
    found = []
    for title, prefixes in groups:
        rows = [
            one
            for one in settings
            if one.is_live
            and max((p for p in every if one.name.startswith(p)), key=len, default="") in prefixes
        ]
        if rows:
            found.append((title, rows))
    return found


class SettingsPage(Page):
    """A page of settings. Changes act at once and can be undone."""

    def __init__(self, title: str, groups: Groups, context: Context) -> None:
        super().__init__(title, context)
        self.rows: dict[str, SettingRow] = {}
        self.live: dict[str, QLabel] = {}
        self._groups = groups
        self._body = QVBoxLayout()
        self.column.addLayout(self._body)
        self.column.addStretch(1)
        context.store.described.connect(self._build)
        context.store.changed.connect(self.show_values)
        if context.store.settings:
            self._build()

    def special(self, name: str) -> bool:
        """True for a setting that the page shows in a way of its own."""
        return False

    def show_items(self, items: Mapping[str, Item]) -> None:
        """What each group of settings sees now stands below its heading."""
        self._show_live(items)

    def _show_live(self, items: Mapping[str, Item]) -> None:
        for title, label in self.live.items():
            line = live_line(title, items, self.context.now_s())
            label.setText(line)
            label.setVisible(bool(line))

    def show_values(self) -> None:
        """Shows the values that hold now."""
        store = self.context.store
        for name, row in self.rows.items():
            if name in store.values:
                row.show_value(store.values[name], is_fixed=store.is_fixed(name))

    def _build(self) -> None:
        declared = list(self.context.store.settings.values())
        if set(self.rows) == {
            one.name for _title, some in groups_of(declared, self._groups) for one in some
        } - {one.name for one in declared if self.special(one.name)}:
            return
        while (item := self._body.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()  # it goes with the next turn of the loop, and would be seen till then
                widget.deleteLater()
        self.rows.clear()
        self.live.clear()
        for title, some in groups_of(declared, self._groups):
            shown = [one for one in some if not self.special(one.name)]
            if shown:
                self._body.addWidget(heading(_(title)))
                self.live[title] = paragraph("")
                self.live[title].setObjectName("quiet")
                self.live[title].hide()
                self._body.addWidget(self.live[title])
            for one in shown:
                row = SettingRow(one)
                row.chosen.connect(lambda name, value: self.context.store.set({name: value}))
                self.rows[one.name] = row
                self._body.addWidget(row)
        self.show_values()
        self._show_live(self.context.link.items)
