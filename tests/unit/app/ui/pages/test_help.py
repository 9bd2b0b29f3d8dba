"""Doctor, log and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.ui.pages.help import HelpPage
from app.ui.pages.page import Context

Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def page(context: Context, qtbot: QtBot) -> HelpPage:
    made = HelpPage(context)
    qtbot.addWidget(made)
    return made


def test_the_doctor_names_the_fix(page: HelpPage, until: Until) -> None:
    page._examine()
    until(lambda: "Free disk space." in page._found.text())
    assert "✓ Coordinator" in page._found.text()


def test_the_log_is_read_when_the_page_is_looked_at_and_saved(
    page: HelpPage, until: Until, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.come_to_front()
    until(lambda: "Card 0" in page._log.toPlainText())
    target = tmp_path / "log"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", staticmethod(lambda *_a: (str(target), "")))
    page._save()
    assert "Card 0" in target.read_text()


def test_every_card_and_probe_has_its_line(page: HelpPage, context: Context) -> None:
    page.show_items(context.link.items)
    assert page._why.text().count("Card ") == 2
    assert "power: UPower" in page._probes.text()
    page.show_items({})
    assert "no agent" in page._why.text()
