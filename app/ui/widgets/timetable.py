"""A week that is painted with the mouse or the keyboard: seven days, 24 hours each.

Owns: the picture, the painting, and what screen readers hear. Must not: know spans or settings.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.control import words
from app.control.texts import _
from app.ui.widgets.hours import DAY_HOURS, WEEK_HOURS, Week

__all__ = ["Timetable"]

LEFT: Final = 56
TOP: Final = 22
ROW: Final = 26


class Timetable(QWidget):
    """Hours of a week that are on or off.

    Dragging paints the first cell's new state; with the keyboard, arrows move, space switches,
    and Shift with an arrow paints on. `painted` comes when a stroke has ended.
    """

    painted = Signal(tuple)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._week: list[bool] = [True] * WEEK_HOURS
        self._cursor = 0
        self._brush: bool | None = None
        self.setAccessibleName(_("Hours of the week in which to lend"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._speak()

    @property
    def week(self) -> Week:
        return tuple(self._week)

    def show_week(self, week: Week) -> None:
        """Shows these hours, unless the owner is painting just now."""
        if self._brush is None:
            self._week = list(week)
            self._speak()
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(LEFT + 24 * 24, TOP + 7 * ROW + 4)

    def minimumSizeHint(self) -> QSize:
        return QSize(LEFT + 24 * 12, TOP + 7 * ROW + 4)

    # -- painting ----------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        palette = self.palette()
        on = palette.color(QPalette.ColorRole.Highlight)
        off = palette.color(QPalette.ColorRole.AlternateBase)
        text = palette.color(QPalette.ColorRole.WindowText)
        if not self.isEnabled():
            on = QColor(on)
            on.setAlphaF(0.45)
        line = QColor(text)
        line.setAlphaF(0.25)
        painter.setPen(text)
        for hour in range(0, DAY_HOURS, 3):
            cell = self._cell(hour)
            painter.drawText(
                QRect(cell.x(), 0, 40, TOP), Qt.AlignmentFlag.AlignVCenter, f"{hour:02}"
            )
        for place in range(WEEK_HOURS):
            cell = self._cell(place)
            painter.fillRect(cell, on if self._week[place] else off)
            painter.setPen(line)
            painter.drawRect(cell)
        painter.setPen(text)
        for day in range(7):
            box = QRect(0, TOP + day * ROW, LEFT - 8, ROW)
            kind = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(box, kind, _day_name(day))
        if self.hasFocus():
            painter.setPen(QPen(text, 2))
            painter.drawRect(self._cell(self._cursor))
        painter.end()

    def _cell(self, place: int) -> QRect:
        day, hour = divmod(place, DAY_HOURS)
        width = self.width() - LEFT - 2
        left = LEFT + width * hour // DAY_HOURS
        right = LEFT + width * (hour + 1) // DAY_HOURS
        return QRect(left, TOP + day * ROW, right - left, ROW)

    def _place(self, point: QPoint) -> int | None:
        width = self.width() - LEFT - 2
        hour = (point.x() - LEFT) * DAY_HOURS // max(1, width)
        day = (point.y() - TOP) // ROW
        if 0 <= hour < DAY_HOURS and 0 <= day < 7:
            return int(day * DAY_HOURS + hour)
        return None

    # -- mouse -------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        place = self._place(event.position().toPoint())
        if place is not None and event.button() == Qt.MouseButton.LeftButton:
            self._brush = not self._week[place]
            self._paint_at(place)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        place = self._place(event.position().toPoint())
        if place is not None and self._brush is not None:
            self._paint_at(place)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._brush is not None:
            self._brush = None
            self._ended()

    # -- keyboard ----------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: -DAY_HOURS,
            Qt.Key.Key_Down: DAY_HOURS,
        }
        key = Qt.Key(event.key())
        if key in (Qt.Key.Key_Space, Qt.Key.Key_Return):
            self._week[self._cursor] = not self._week[self._cursor]
            self._ended()
        elif key in steps:
            before = self._week[self._cursor]
            self._cursor = (self._cursor + steps[key]) % WEEK_HOURS
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self._week[self._cursor] = before
                self._ended()
            self._speak()
            self.update()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._speak()

    def _paint_at(self, place: int) -> None:
        if self._brush is not None:
            self._week[place] = self._brush
        self._cursor = place
        self.update()

    def _ended(self) -> None:
        self._speak()
        self.update()
        self.painted.emit(self.week)

    def _speak(self) -> None:
        day, hour = divmod(self._cursor, DAY_HOURS)
        state = _("lend") if self._week[self._cursor] else _("do not lend")
        self.setAccessibleDescription(f"{_day_name(day)} {hour:02}:00: {state}")


def _day_name(day: int) -> str:
    return _(words.DAYS[day])
