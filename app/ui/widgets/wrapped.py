"""A check box or a radio button whose text wraps: Qt's own cut it off or widen the page.

Owns: the button without a text, and the text beside it, which clicks it. Screen readers hear the
button by its name.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPalette
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLabel, QSizePolicy, QWidget

__all__ = ["Wrapped"]


DARK: Final = 128
"""Below this lightness (of 255) a window is a dark one."""
TEXT_SHARE: Final = 0.85


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
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self._label.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._label, 1)
        self._outline()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._outline()

    def _outline(self) -> None:
        """Qt draws the box in the window's colour, darkened, which nobody sees on a dark window."""
        own, shown = self.palette(), QPalette()
        window = own.color(QPalette.ColorRole.Window)
        if window.lightness() < DARK:
            text = own.color(QPalette.ColorRole.WindowText)
            shown.setColor(QPalette.ColorRole.Window, _mixed(text, window))
        self._button.setPalette(shown)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, super().minimumSizeHint().height())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The text is part of the button."""
        if self._button.isEnabled() and self.rect().contains(event.position().toPoint()):
            self._button.setFocus(Qt.FocusReason.MouseFocusReason)
            self._button.click()


def _mixed(text: QColor, window: QColor) -> QColor:
    shares = zip(text.getRgb()[:3], window.getRgb()[:3], strict=True)  # type: ignore[index] # four
    return QColor(*(round(TEXT_SHARE * a + (1 - TEXT_SHARE) * b) for a, b in shares))
