"""Cards that come, go and change."""

from __future__ import annotations

import msgspec
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.control.messages import CardItem, GrantItem
from app.ui.pages.now import NowPage
from app.ui.pages.page import Context


def test_panels_follow_the_cards(context: Context, qtbot: QtBot) -> None:
    page = NowPage(context)
    qtbot.addWidget(page)
    page.show_items(context.link.items)
    first = page._panels[0]
    assert sorted(page._panels) == [0, 1]
    fewer = {key: item for key, item in context.link.items.items() if key != "card-1"}
    page.show_items(fewer)
    assert sorted(page._panels) == [0]
    page.show_items(context.link.items)
    assert sorted(page._panels) == [0, 1]
    assert page._panels[0] is first


def test_whom_a_card_works_for_has_a_name(context: Context, qtbot: QtBot) -> None:
    page = NowPage(context)
    qtbot.addWidget(page)
    card = context.link.items["card-0"]
    assert isinstance(card, CardItem)
    busy = msgspec.structs.replace(card, lab="lab_a", doing="computing")
    words = "<b>Weather</b> & tides"
    grant = GrantItem("grant_a", "lab_a", 0, 1e9, "Tides", words)
    page.show_items({**context.link.items, "card-0": busy, "grant_a": grant})
    panel = page._panels[0]
    assert panel._task.text().startswith("For Tides: ")
    assert panel._about.text() == words
    assert panel._about.textFormat() is Qt.TextFormat.PlainText
    page.show_items({**context.link.items, "card-0": busy})
    assert panel._task.text().startswith("For lab_a: ")
    assert not panel._about.isVisibleTo(page)


def test_facts_that_appear_later_are_shown(context: Context, qtbot: QtBot) -> None:
    page = NowPage(context)
    qtbot.addWidget(page)
    card = context.link.items["card-0"]
    assert isinstance(card, CardItem)
    page.show_items({**context.link.items, "card-0": msgspec.structs.replace(card, sensors=())})
    page.show_items({**context.link.items, "card-0": msgspec.structs.replace(card, power_w=33.0)})
    assert page._panels[0]._facts["power"].text() == "33 W"
