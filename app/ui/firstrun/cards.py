"""The page on which the owner chooses what to lend: the cards that were found, each measured.

Owns: one row a card, and the measuring, one card after another. Must not: choose for the owner:
all cards are lent unless one is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout

from app.control.messages import Answer, CardItem, Item, Refused, SelfTest, SelfTestIs
from app.control.texts import _
from app.ui.facts import card_name, cards_of
from app.ui.firstrun.step import Step
from app.ui.pages.page import Context, paragraph
from app.ui.widgets.wrapped import Wrapped
from gpugoblin.units import format_bytes, format_flops

__all__ = ["CardsStep"]


class _Row(QFrame):
    """One card: whether it is lent, and what it has shown."""

    def __init__(self, card: CardItem) -> None:
        super().__init__()
        self.setObjectName("card")
        self.card = card.card
        self.identity = card.identity
        name = card_name(card)
        memory = f" ({format_bytes(card.memory_bytes)})" if card.memory_bytes else ""
        self.lend = QCheckBox()
        text = Wrapped(self.lend, _("Lend {card}").format(card=f"{name}{memory}"))
        self.lend.setChecked(True)
        self.again = QPushButton(_("Measure again"))
        self.again.setAccessibleName(_("Measure {card} again").format(card=name))
        self.result = paragraph(_("Not measured yet."))
        self.result.setAccessibleName(_("What {card} has shown").format(card=name))
        head = QHBoxLayout()
        head.addWidget(text, 1, Qt.AlignmentFlag.AlignVCenter)
        head.addWidget(self.again)
        column = QVBoxLayout(self)
        column.addLayout(head)
        column.addWidget(self.result)


class CardsStep(Step):
    """The cards of this machine."""

    def __init__(self, context: Context) -> None:
        super().__init__(
            _("What you lend"),
            _("Each card is measured for a second, walled in as it will be when it computes for a"
              " lab."),
            context,
        )  # fmt: skip
        self.rows: dict[int, _Row] = {}
        self._queue: list[int] = []
        self._measuring: int | None = None
        self._none = QLabel(_("No card that can be lent was found yet."))
        self._none.setWordWrap(True)
        self._hint = paragraph("")
        self._hint.setObjectName("quiet")
        self._hint.hide()
        self._list = QVBoxLayout()
        self.column.addLayout(self._list)
        for widget in (self._none, self._hint, self._effect):
            self.column.addWidget(widget)
        self.column.addStretch(1)
        context.store.changed.connect(self._show_chosen)

    def come_to_front(self) -> None:
        """Measures what was not measured yet."""
        for number, row in self.rows.items():
            if not row.property("is_measured"):
                self.measure(number)
        self._preview()

    def show_items(self, items: Mapping[str, Item]) -> None:
        super().show_items(items)
        cards = cards_of(items)
        if not items:  # the agent went: what it was asked is forgotten with it
            self._queue.clear()
            self._measuring = None
        self._none.setVisible(not cards)
        fresh = [card for card in cards if card.card not in self.rows]
        for card in fresh:
            row = _Row(card)
            row.lend.clicked.connect(self._chosen)
            row.again.clicked.connect(lambda _on=False, number=card.card: self.measure(number))
            self.rows[card.card] = row
            self._list.addWidget(row)
        if fresh:
            self._show_chosen()
        if self.isVisible():
            for card in fresh:
                self.measure(card.card)
            self._preview()

    def measure(self, number: int) -> None:
        """Has a card measured, after those that wait."""
        if number != self._measuring and number not in self._queue:
            self._queue.append(number)
            self._next()

    def _next(self) -> None:
        if self._measuring is not None or not self._queue:
            return
        number, link = self._queue.pop(0), self.context.link
        row = self.rows[number]
        if not link.ask(SelfTest(link.number(), number), self._measured):
            self._queue.clear()
            row.result.setText(_("The agent does not run."))
            return
        self._measuring = number
        row.result.setText(_("Being measured …"))
        row.again.setEnabled(False)

    def _measured(self, answer: Answer) -> None:
        row = self.rows.get(-1 if self._measuring is None else self._measuring)
        self._measuring = None
        if row is not None:
            row.again.setEnabled(True)
            row.setProperty("is_measured", isinstance(answer, SelfTestIs))
            if isinstance(answer, SelfTestIs):
                speed = f"{format_flops(answer.flops_per_s)}/s"
                template = (
                    _("Measured: {speed}, behind all walls.")
                    if answer.sandbox_level == "full"
                    else _("Measured: {speed}, behind reduced walls.")
                )
                row.result.setText(template.format(speed=speed))
            elif isinstance(answer, Refused):
                row.result.setText(f"{answer.what} {answer.next_step}")
        self._next()

    def _chosen(self) -> None:
        rows = list(self.rows.values())
        chosen = [row for row in rows if row.lend.isChecked()]
        if not chosen:
            self._hint.setText(_("One card stays lent; to lend nothing, pause it in the tray."))
            self._hint.show()
            self._show_chosen()
            return
        self._hint.hide()
        names = () if len(chosen) == len(rows) else tuple(map(_name, chosen))
        self.context.store.set({"cards.lend": names})
        self._preview()

    def _show_chosen(self) -> None:
        wanted = self.context.store.values.get("cards.lend", ())
        names = wanted if isinstance(wanted, tuple) else ()
        for row in self.rows.values():
            is_lent = not names or bool({str(row.card), row.identity} & set(names))
            row.lend.setChecked(is_lent)

    def _preview(self) -> None:
        chosen = [row for row in self.rows.values() if row.lend.isChecked()]
        every = len(chosen) == len(self.rows)
        self.ask_effect({"cards.lend": () if every else tuple(map(_name, chosen))})


def _name(row: _Row) -> str:
    return row.identity or str(row.card)
