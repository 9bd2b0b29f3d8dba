"""Labs: who has a grant, and refusing one."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.ui.pages.labs import LabsPage
from app.ui.pages.page import Context
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def test_a_lab_is_refused_with_one_click(
    context: Context, served: ServedAgent, qtbot: QtBot, until: Until
) -> None:
    page = LabsPage(context)
    qtbot.addWidget(page)
    context.link.changed.connect(page.show_items)
    page.show_items(context.link.items)
    assert any("No lab" in label.text() for label in page._now.findChildren(QLabel))
    for step in (1, 2):
        served.step(step)
    until(lambda: bool(page._now.findChildren(QPushButton)))
    shown = [label.text() for label in page._now.findChildren(QLabel)]
    assert any(text.startswith("Tides and Currents, until ") for text in shown)
    assert any("North Sea" in text for text in shown)
    page._now.findChildren(QPushButton)[0].click()
    until(lambda: context.store.values["labs.refuse"] == ("lab_tides",))
