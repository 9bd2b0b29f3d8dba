"""Profiles and the painted week."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.ui.pages.page import Context
from app.ui.pages.when import WhenPage
from app.ui.widgets.hours import hours_of

Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def page(context: Context, qtbot: QtBot) -> WhenPage:
    made = WhenPage(context)
    qtbot.addWidget(made)
    made.resize(900, 700)
    made.show()
    return made


def test_a_profile_is_one_click(
    page: WhenPage, context: Context, until: Until, qtbot: QtBot
) -> None:
    assert page._choices["away"].isChecked()
    page._choices["nights"].click()
    until(lambda: context.store.values["profile"] == "nights")
    assert page._table.week == hours_of(("daily 22:00-07:00",))


def test_painting_chooses_custom_and_writes_spans(
    page: WhenPage, context: Context, until: Until, qtbot: QtBot
) -> None:
    table = page._table
    first, last = table._cell(0).center(), table._cell(7).center()
    qtbot.mousePress(table, Qt.MouseButton.LeftButton, pos=first)
    qtbot.mouseMove(table, last)
    for place in range(8):
        table._paint_at(place)
    qtbot.mouseRelease(table, Qt.MouseButton.LeftButton, pos=last)
    until(lambda: context.store.values["profile"] == "custom")
    assert context.store.values["hours.spans"] == ("mon 08:00-24:00", "tue-sun 00:00-24:00") or (
        hours_of(context.store.values["hours.spans"])[:9] == (False,) * 8 + (True,)  # type: ignore[arg-type]
    )


def test_an_empty_week_is_refused_with_words(
    page: WhenPage, context: Context, told: list[str]
) -> None:
    page._painted((False,) * 168)
    assert "Pause" in told[0]
    assert context.store.values["profile"] == "away"


def test_half_hours_are_left_as_they_are(page: WhenPage, context: Context, until: Until) -> None:
    context.store.set({"profile": "custom", "hours.spans": ("mon-fri 22:30-07:00",)})
    until(lambda: not page._table.isEnabled())
    assert "22:30" in page._hint.text()
    assert context.store.values["hours.spans"] == ("mon-fri 22:30-07:00",)


def test_what_it_would_mean_now_is_said(page: WhenPage, context: Context) -> None:
    page.show_items(context.link.items)
    assert "Card 1: not lending, because the machine is in use" in page._effect.text()


def test_each_group_says_what_it_sees_now(page: WhenPage, context: Context) -> None:
    page.show_items(context.link.items)
    assert "the machine is in use" in page.live["Idle"].text()
    assert "core 51 °C" in page.live["Heat"].text()
    assert "nothing of this" in page.live["Games and other programs"].text()
    page.show_items({})
    assert not any(label.isVisible() for label in page.live.values())
