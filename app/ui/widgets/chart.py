"""Bars over days or hours, painted here: no chart library is worth its memory for this.

Owns: geometry and painting. Colours are those of the palette, so it follows light and dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget

__all__ = ["Bars", "merged", "scale_top"]

LEFT: Final = 52
BOTTOM: Final = 22
TOP: Final = 10
MIN_BAR_PX: Final = 3.0
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


def scale_top(highest: float) -> float:
    """The least round number that is not below `highest`; 1 for nothing."""
    if highest <= 0:
        return 1.0
    power = 1e-9
    while power * 10 < highest:
        power *= 10
    return next(power * step for step in _STEPS if power * step >= highest * (1 - 1e-12))


def merged(
    points: Sequence[tuple[str, float]],
    most: int,
    join: Callable[[Iterable[float]], float] = sum,
) -> list[tuple[str, float]]:
    """At most `most` points: neighbours are joined under the name of the first."""
    every = max(1, -(-len(points) // max(1, most)))
    return [
        (points[begin][0], join(value for _, value in points[begin : begin + every]))
        for begin in range(0, len(points), every)
    ]


class Bars(QWidget):
    """Named bars from left to right."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._unit = ""
        self._join: Callable[[Iterable[float]], float] = sum
        self._points: list[tuple[str, float]] = []
        self.setAccessibleName(name)
        self.setMinimumHeight(150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def sizeHint(self) -> QSize:
        return QSize(520, 180)

    def show_points(
        self,
        points: Sequence[tuple[str, float]],
        unit: str = "",
        join: Callable[[Iterable[float]], float] = sum,
    ) -> None:
        """Shows these, heights at least 0. Screen readers get them as a text.

        Args:
            unit: follows the numbers of the scale.
            join: makes one bar of neighbours where there is no room for all.
        """
        self._points, self._unit, self._join = list(points), unit, join
        spoken = ", ".join(
            f"{name}: {value:.3g} {self._unit}" for name, value in self._points[-60:]
        )
        self.setAccessibleDescription(spoken)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inner = QRectF(LEFT, TOP, self.width() - LEFT - 4, self.height() - TOP - BOTTOM)
        points = merged(self._points, int(inner.width() / MIN_BAR_PX), self._join)
        top = scale_top(max((value for _, value in points), default=0.0))
        self._paint_scale(painter, inner, top)
        if points:
            self._paint_bars(painter, inner, points, top)
        painter.end()

    def _paint_scale(self, painter: QPainter, inner: QRectF, top: float) -> None:
        quiet = self._quiet()
        for share in (0.0, 0.5, 1.0):
            y = inner.bottom() - inner.height() * share
            line = QColor(quiet)
            line.setAlphaF(0.3)
            painter.setPen(line)
            painter.drawLine(int(inner.left()), int(y), int(inner.right()), int(y))
            painter.setPen(quiet)
            box = QRectF(0, y - 9, LEFT - 6, 18)
            kind = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            unit = f" {self._unit}" if share == 1.0 else ""
            painter.drawText(box, kind, f"{top * share:.3g}{unit}")

    def _paint_bars(
        self, painter: QPainter, inner: QRectF, points: list[tuple[str, float]], top: float
    ) -> None:
        step = inner.width() / len(points)
        colour = self.palette().color(QPalette.ColorRole.Highlight)
        measure = QFontMetrics(self.font())
        widest = max(measure.horizontalAdvance(name) for name, _ in points) + 12
        every = max(1, int(widest / step) + 1)
        for place, (name, value) in enumerate(points):
            height = inner.height() * value / top
            x = inner.left() + place * step
            painter.fillRect(
                QRectF(x + step * 0.12, inner.bottom() - height, step * 0.76, height), colour
            )
            if place % every == 0:
                painter.setPen(self._quiet())
                box = QRectF(x + step / 2 - widest / 2, inner.bottom() + 4, widest, BOTTOM - 4)
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, name)

    def _quiet(self) -> QColor:
        colour = self.palette().color(QPalette.ColorRole.WindowText)
        colour.setAlphaF(0.75)
        return colour
