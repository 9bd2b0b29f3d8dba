"""The goblin, painted: its state by shape, colour and (in the tool tip) text.

Owns: the pictures of the tray and of the window. They are painted and not loaded, so they are sharp
at every size and no theme can hide them.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap

from app.ui.facts import State

__all__ = ["COLOURS", "SIZES", "icon", "pixmap"]

SIZES: Final = (16, 22, 24, 32, 48, 64, 128)

COLOURS: Final[dict[State, str]] = {
    "away": "#7d8783",
    "setup": "#c98a1b",
    "computing": "#2f8f55",
    "ready": "#3f7fb5",
    "paused": "#c98a1b",
    "resting": "#7d8783",
    "trouble": "#b3352f",
}
"""Dark and light enough for panels of both kinds (contrast with white and black above 3)."""

_cache: dict[State, QIcon] = {}


def icon(state: State) -> QIcon:
    """The icon of a state in all sizes of `SIZES`."""
    if state not in _cache:
        made = QIcon()
        for size in SIZES:
            made.addPixmap(pixmap(state, size))
        _cache[state] = made
    return _cache[state]


def pixmap(state: State, size: int) -> QPixmap:
    """The goblin at `size` x `size` pixels, with the sign of its state at the lower right."""
    picture = QPixmap(size, size)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(size / 64.0, size / 64.0)
    _face(painter, QColor(COLOURS[state]), state)
    _sign(painter, state)
    painter.end()
    return picture


def _face(painter: QPainter, colour: QColor, state: State) -> None:
    """Awake or asleep; only an outline of it where nobody is at home."""
    head = QPainterPath(QPointF(1, 16))
    head.cubicTo(9, 16, 15, 19, 18, 25)
    head.cubicTo(21, 17, 26, 14, 32, 14)
    head.cubicTo(38, 14, 43, 17, 46, 25)
    head.cubicTo(49, 19, 55, 16, 63, 16)
    head.cubicTo(61, 27, 55, 33, 49, 35)
    head.cubicTo(48, 48, 41, 56, 32, 56)
    head.cubicTo(23, 56, 16, 48, 15, 35)
    head.cubicTo(9, 33, 3, 27, 1, 16)
    features = QColor("#ffffff")
    if state == "away":
        features = colour
        painter.strokePath(head, QPen(colour, 4.0, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    else:
        painter.fillPath(head, colour)
    painter.setPen(QPen(features, 4.0, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    if state in ("resting", "away"):
        painter.drawLine(QPointF(21, 32), QPointF(28, 32))
        painter.drawLine(QPointF(36, 32), QPointF(43, 32))
    else:
        painter.setBrush(QColor("#ffffff"))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawEllipse(QPointF(25, 32), 4.6, 4.6)
        painter.drawEllipse(QPointF(39, 32), 4.6, 4.6)
        painter.setPen(QPen(QColor("#ffffff"), 3.5, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawArc(QRectF(24, 38, 16, 10), 200 * 16, 140 * 16)


def _sign(painter: QPainter, state: State) -> None:
    """A shape of its own for each state: colour alone is not seen by everybody."""
    if state in ("ready", "resting", "away"):
        return
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor("#ffffff"))
    painter.drawEllipse(QPointF(49, 49), 15, 15)
    painter.setBrush(QColor(COLOURS[state]))
    painter.drawEllipse(QPointF(49, 49), 13, 13)
    painter.setBrush(QColor("#ffffff"))
    if state == "computing":
        arrow = QPainterPath(QPointF(45, 42))
        arrow.lineTo(57, 49)
        arrow.lineTo(45, 56)
        arrow.closeSubpath()
        painter.drawPath(arrow)
    elif state == "paused":
        painter.drawRect(QRectF(43.5, 42.5, 4, 13))
        painter.drawRect(QRectF(50.5, 42.5, 4, 13))
    elif state == "setup":
        for x in (42.5, 49, 55.5):
            painter.drawEllipse(QPointF(x, 49), 2.4, 2.4)
    else:
        painter.drawRoundedRect(QRectF(47, 40.5, 4, 10.5), 2, 2)
        painter.drawEllipse(QPointF(49, 55), 2.4, 2.4)
