"""Sums by day and a table for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.control.messages import HistoryRow
from app.ui.pages.history import HistoryPage, as_csv, by_day
from app.ui.pages.page import Context

Until = Callable[[Callable[[], bool]], None]
NOON_S = datetime(2026, 12, 1, 12).timestamp()


def row(days_ago: float, **changed: float) -> HistoryRow:
    begin_s = NOON_S - 86_400 * days_ago
    return HistoryRow(
        begin_s, begin_s + 7200, 0, "lab_a", 10, changed.get("busy_s", 3600.0), 50.0, "estimate",
        0.02, "EUR", changed.get("peak_c"), 1000, 2000,
    )  # fmt: skip


def test_days_are_summed_in_local_time() -> None:
    found = by_day([row(0), row(0), row(1, busy_s=1800.0), row(40)], "hours", NOON_S, 3)
    assert found == [("29.11.", 0.0), ("30.11.", 0.5), ("01.12.", 2.0)]
    assert by_day([row(0)], "tasks", NOON_S, 1) == [("01.12.", 10.0)]
    assert by_day([], "wh", NOON_S, 2) == [("30.11.", 0.0), ("01.12.", 0.0)]


def test_csv_is_read_back() -> None:
    (found,) = csv.DictReader(io.StringIO(as_csv([row(0)])))
    assert datetime.fromisoformat(found["begin_s"]).timestamp() == NOON_S
    assert found["peak_c"] == ""
    assert found["tasks"] == "10"


def test_the_page_asks_when_it_is_looked_at(context: Context, qtbot: QtBot, until: Until) -> None:
    page = HistoryPage(context)
    qtbot.addWidget(page)
    assert page._table.rowCount() == 0
    page.come_to_front()
    until(lambda: page._table.rowCount() > 0)
    assert "kWh" in page._sums.text()
    assert page._bars.accessibleDescription()


def test_saving(
    context: Context, qtbot: QtBot, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = HistoryPage(context)
    qtbot.addWidget(page)
    page.rows = (row(0),)
    for name in (tmp_path / "h.csv", tmp_path / "no" / "h.csv"):
        monkeypatch.setattr(
            QFileDialog, "getSaveFileName", staticmethod(lambda *_a, name=name: (str(name), ""))
        )
        page._save_as()
    assert (tmp_path / "h.csv").read_text() == as_csv([row(0)])
    assert "Saved" in told[0]
    assert "could not" in told[1]
