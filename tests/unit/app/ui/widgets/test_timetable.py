"""Painting with mouse and keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from app.ui.widgets.hours import WEEK_HOURS
from app.ui.widgets.timetable import Timetable


@pytest.fixture
def table(qtbot: QtBot) -> Timetable:
    made = Timetable()
    qtbot.addWidget(made)
    made.resize(700, 240)
    made.show()
    return made


def test_a_stroke_paints_one_state_and_is_told_once(table: Timetable, qtbot: QtBot) -> None:
    told: list[object] = []
    table.painted.connect(told.append)
    left = Qt.MouseButton.LeftButton
    qtbot.mousePress(table, left, pos=table._cell(3).center())
    for place in range(3, 7):
        qtbot.mouseMove(table, table._cell(place).center())
    qtbot.mouseRelease(table, left, pos=table._cell(6).center())
    assert len(told) == 1
    assert [place for place in range(WEEK_HOURS) if not table.week[place]] == [3, 4, 5, 6]


def test_the_keyboard_can_do_it_all(table: Timetable, qtbot: QtBot) -> None:
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Space)
    qtbot.keyClick(table, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClick(table, Qt.Key.Key_Down)
    qtbot.keyClick(table, Qt.Key.Key_Space)
    assert [place for place in range(WEEK_HOURS) if not table.week[place]] == [0, 1, 25]
    assert "do not lend" in table.accessibleDescription()
    qtbot.keyClick(table, Qt.Key.Key_Space)
    assert "do not lend" not in table.accessibleDescription()


def test_outside_the_cells_nothing_is_painted(table: Timetable, qtbot: QtBot) -> None:
    qtbot.mouseClick(table, Qt.MouseButton.LeftButton, pos=QPoint(1, 1))
    assert all(table.week)


def test_cells_tile_the_week(table: Timetable) -> None:
    for place in range(WEEK_HOURS):
        assert table._place(table._cell(place).center()) == place


def test_news_does_not_wipe_a_stroke(table: Timetable, qtbot: QtBot) -> None:
    qtbot.mousePress(table, Qt.MouseButton.LeftButton, pos=table._cell(0).center())
    table.show_week((True,) * WEEK_HOURS)
    assert not table.week[0]
