"""The look of the window: sizes and spaces; colours are the desktop's own.

Owns: the one style sheet, and putting it on again when the desktop turns light or dark: what a
style sheet has resolved once keeps the old colours. Must not: name a colour that does not follow
light and dark.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication, QWidget

__all__ = ["STYLE", "dress", "fit"]

FRAME_PX: Final = 40
"""What a desktop puts around a window: its title and its borders."""

STYLE: Final = """
QLabel#pageTitle { font-size: 20pt; font-weight: 600; }
QLabel#headline { font-size: 15pt; font-weight: 600; }
QLabel#heading {
  font-size: 12pt; font-weight: 600; padding-top: 14px; qproperty-indent: 0;
}
QLabel#cardName { font-weight: 600; font-size: 12pt; }
QLabel#code { font-size: 22pt; font-weight: 600; letter-spacing: 2px; }
QLabel#quiet { color: palette(placeholder-text); }
QLabel#effect {
  border: 0 solid palette(highlight); border-left-width: 3px; padding: 4px 0 4px 10px;
  margin: 8px 0; qproperty-indent: 0;
}
QFrame#card { border: 1px solid palette(mid); border-radius: 8px; padding: 6px; }
QListWidget#sidebar { border: none; background: palette(window); font-size: 11pt; outline: 0; }
QListWidget#sidebar::item { padding: 9px 14px; border-radius: 6px; margin: 1px 6px; }
QListWidget#sidebar::item:selected {
  background: palette(highlight); color: palette(highlighted-text);
}
QPushButton, QToolButton { padding: 5px 14px; }
"""


def dress(window: QWidget) -> None:
    """Gives a window the style, in the desktop's colours of every moment."""
    window.setStyleSheet(STYLE)
    _Follower(window)


class _Follower(QObject):
    """Looks after one window, which owns it."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._seen = QApplication.palette().cacheKey()
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kinds = (QEvent.Type.PaletteChange, QEvent.Type.ApplicationPaletteChange)
        if event.type() in kinds and QApplication.palette().cacheKey() != self._seen:
            self._seen = QApplication.palette().cacheKey()
            QTimer.singleShot(0, self, self._again)  # once, after everybody has heard it
        return False

    def _again(self) -> None:
        self._window.setStyleSheet("")
        self._window.setStyleSheet(STYLE)


def fit(window: QWidget, width: int, height: int) -> None:
    """Gives a window this size, or what the screen has room for."""
    room = window.screen().availableGeometry()
    window.resize(min(width, room.width()), min(height, max(1, room.height() - FRAME_PX)))
