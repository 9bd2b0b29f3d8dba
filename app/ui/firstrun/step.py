"""What every page of the first run is given and is.

Owns: `Step` and the line that says what a choice would mean right now. Must not: hold a fact.
"""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtWidgets import QLabel, QScrollArea, QVBoxLayout, QWidget

from app.control.messages import Answer, Item, Preview, PreviewIs, Value
from app.control.texts import _
from app.ui.firstrun.effect import effect
from app.ui.pages.page import Context, paragraph

__all__ = ["Step"]


class Step(QScrollArea):
    """A page of the first run. Subclasses fill `column` and override what they need."""

    def __init__(self, title: str, lead: str, context: Context) -> None:
        super().__init__()
        self.title = title
        self.context = context
        self.items: Mapping[str, Item] = {}
        self.setAccessibleName(title)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        inner = QWidget()
        inner.setObjectName("page")
        self.column = QVBoxLayout(inner)
        self.column.setContentsMargins(32, 20, 32, 20)
        self.column.setSpacing(10)
        name = QLabel(title)
        name.setObjectName("pageTitle")
        name.setWordWrap(True)
        self.column.addWidget(name)
        if lead:
            self.column.addWidget(paragraph(lead))
        self._effect = paragraph("")
        self._effect.setObjectName("effect")
        self._effect.setAccessibleName(_("What this would mean right now"))
        self._effect.hide()
        self.setWidget(inner)

    @property
    def is_settled(self) -> bool:
        """Whether the owner has decided here; an open page may be passed all the same."""
        return True

    def show_items(self, items: Mapping[str, Item]) -> None:
        """Shows what there is to see of the agent now; {} while there is none."""
        self.items = items

    def come_to_front(self) -> None:
        """The page is looked at from now on."""

    def ask_effect(self, values: Mapping[str, Value]) -> None:
        """Shows what these settings would mean right now, as soon as the agent has said it."""
        link = self.context.link
        if not link.ask(Preview(link.number(), dict(values)), self._take_effect):
            self._effect.hide()

    def _take_effect(self, answer: Answer) -> None:
        if isinstance(answer, PreviewIs):
            self._effect.setText(effect(answer.cards, self.items))
            self._effect.show()
        else:
            self._effect.hide()
