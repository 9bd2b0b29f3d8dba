"""Scales and merged bars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from app.ui.widgets.chart import Bars, merged, scale_top


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_the_scale_holds_the_highest_and_is_round(highest: float) -> None:
    top = scale_top(highest)
    assert highest <= top * (1 + 1e-9)
    assert top <= 2.5 * highest * (1 + 1e-9)


@pytest.mark.parametrize(("highest", "top"), [(0, 1), (-1, 1), (1, 1), (3, 5), (7, 10), (0.2, 0.2)])
def test_round_tops(highest: float, top: float) -> None:
    assert scale_top(highest) == pytest.approx(top)


def test_merging_keeps_the_sum() -> None:
    points = [(str(place), float(place)) for place in range(1440)]
    found = merged(points, 200)
    assert len(found) <= 200
    assert sum(value for _name, value in found) == sum(range(1440))
    assert merged(points[:3], 200) == points[:3]
    assert merged([], 5) == []
    assert merged(points, 2, max) == [("0", 719.0), ("720", 1439.0)]


def test_bars_are_painted_and_spoken(qtbot: QtBot) -> None:
    bars = Bars("Hours by day")
    qtbot.addWidget(bars)
    bars.resize(400, 160)
    empty = bars.grab().toImage()
    bars.show_points([("a", 1.0), ("b", 3.5)], "h")
    assert bars.grab().toImage() != empty
    assert bars.accessibleDescription() == "a: 1 h, b: 3.5 h"
