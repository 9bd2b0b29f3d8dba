"""The page When: profile, weekly hours, and the rules of the owner's comfort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from PySide6.QtWidgets import QButtonGroup, QGridLayout, QPushButton, QRadioButton

from app.control import words
from app.control.messages import Item
from app.control.texts import _
from app.ui.facts import cards_of
from app.ui.pages.page import Context, heading, paragraph
from app.ui.pages.settings import WHEN, SettingsPage
from app.ui.widgets.hours import Week, hours_of, is_whole, spans_of
from app.ui.widgets.timetable import Timetable
from app.ui.widgets.wrapped import Wrapped

__all__ = ["WhenPage"]

SPANS: Final = "hours.spans"
PROFILES: Final = (
    ("away", "Only when I am away", "The cards are yours whenever you use the machine."),
    ("nights", "Nights", "Away, and only from 22:00 to 07:00."),
    ("always", "Always, quietly", "Also while you work, slowly then; never beside a game."),
    ("custom", "Custom", "As the hours and switches below say."),
)


class WhenPage(SettingsPage):
    """When to lend. What it would mean right now stands below the choice."""

    def __init__(self, context: Context) -> None:
        self._table = Timetable()
        self._choices: dict[str, QRadioButton] = {}
        super().__init__(_("When"), WHEN, context)
        place = 1
        group = QButtonGroup(self)
        for word, name, sentence in PROFILES:
            button = QRadioButton()
            button.clicked.connect(lambda _on, word=word: context.store.set({"profile": word}))
            group.addButton(button)
            self._choices[word] = button
            self.column.insertWidget(place, Wrapped(button, f"{_(name)}: {_(sentence)}"))
            place += 1
        self._effect = paragraph("")
        self._effect.setObjectName("effect")
        self._hint = paragraph("")
        self._hint.setObjectName("quiet")
        self.column.insertWidget(place, self._effect)
        self.column.insertWidget(place + 1, heading(_("Weekly hours")))
        self.column.insertWidget(place + 2, self._hint)
        self.column.insertWidget(place + 3, self._table)
        self.column.insertLayout(place + 4, self._quick_buttons())
        self._table.painted.connect(self._painted)
        self.show_values()

    def special(self, name: str) -> bool:
        return name == SPANS

    def show_items(self, items: Mapping[str, Item]) -> None:
        super().show_items(items)
        now_s = self.context.now_s()
        lines = [words.why(card, now_s) for card in cards_of(items)]
        self._effect.setText(_("Right now:") + "\n" + "\n".join(lines) if lines else "")
        self._effect.setVisible(bool(lines))

    def show_values(self) -> None:
        super().show_values()
        store = self.context.store
        profile = str(store.values.get("profile", ""))
        if profile in self._choices:
            self._choices[profile].setChecked(True)
        spans = store.values.get(SPANS, ())
        if not isinstance(spans, tuple) or not hasattr(self, "_hint"):
            return
        whole = is_whole(spans)
        self._table.setEnabled(whole)
        if profile == "nights":
            self._table.show_week(hours_of(("daily 22:00-07:00",)))
        else:
            self._table.show_week(hours_of(spans))
        if not whole:
            hint = _("Your hours are {spans}; this table shows whole hours only, so change them in"
                     " the settings file.").format(spans=", ".join(spans))  # fmt: skip
        elif profile != "custom":
            hint = _("Painting here chooses the profile Custom.")
        else:
            hint = _("Drag to paint; with the keyboard: arrows, space, Shift with an arrow.")
        self._hint.setText(hint)

    def _painted(self, week: Week) -> None:
        try:
            spans = spans_of(week)
        except ValueError:
            self.context.tell(_("A week without hours: use Pause or Stop on the page Now instead."))
            self.show_values()
            return
        self.context.store.set({SPANS: spans, "profile": "custom"})

    def _quick_buttons(self) -> QGridLayout:
        grid = QGridLayout()
        quick = (
            (_("Every hour"), ()),
            (_("Nights and weekends"), ("mon-fri 19:00-07:00", "sat,sun 00:00-24:00")),
            (_("Nights"), ("daily 22:00-07:00",)),
        )
        for place, (name, spans) in enumerate(quick):
            button = QPushButton(name)
            button.clicked.connect(lambda _on, spans=spans: self._painted(hours_of(spans)))
            grid.addWidget(button, place // 2, place % 2)
        grid.setColumnStretch(2, 1)
        return grid
