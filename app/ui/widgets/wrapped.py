"""A check box or a radio button whose text wraps: Qt's own cut it off or widen the page.

Owns: the button without a text, and the text beside it, which clicks it. Screen readers hear the
button by its name.
"""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLabel, QSizePolicy, QWidget

__all__ = ["Wrapped"]


class Wrapped(QWidget):
    """`button` with `text` beside it."""

    def __init__(self, button: QAbstractButton, text: str) -> None:
        super().__init__()
        self._button = button
        button.setText("")
        button.setAccessibleName(text)
        button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._label = QLabel(text)
        self._label.setWordWrap(True)
        self._label.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._label, 1)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, super().minimumSizeHint().height())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The text is part of the button."""
        if self._button.isEnabled() and self.rect().contains(event.position().toPoint()):
            self._button.setFocus(Qt.FocusReason.MouseFocusReason)
            self._button.click()
