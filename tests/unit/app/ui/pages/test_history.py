"""Sums by day and a table for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.control.messages import History, HistoryIs, HistoryRow, Refused
from app.ui.pages.history import HistoryPage, as_csv, by_day, by_hour, month_and_day
from app.ui.pages.page import Context
from tests.helpers.served_agent import ServedAgent

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
    assert found == [(date(2026, 11, 29), 0.0), (date(2026, 11, 30), 0.5), (date(2026, 12, 1), 2.0)]
    assert by_day([row(0)], "tasks", NOON_S, 1) == [(date(2026, 12, 1), 10.0)]
    assert by_day([], "wh", NOON_S, 2) == [(date(2026, 11, 30), 0.0), (date(2026, 12, 1), 0.0)]


def test_of_temperatures_the_highest_counts() -> None:
    found = by_day([row(0, peak_c=70.0), row(0), row(0, peak_c=64.0)], "peak", NOON_S, 1)
    assert found == [(date(2026, 12, 1), 70.0)]


def test_a_stretch_is_spread_over_its_hours() -> None:
    """It took two hours from noon, and it is 13:30: half of it lies in each hour."""
    found = by_hour([row(0), row(2)], "wh", NOON_S + 5400)
    assert len(found) == 24
    assert found[-2:] == [("12", 25.0), ("13", 25.0)]
    assert sum(value for _name, value in found) == 50.0
    assert by_hour([row(0, peak_c=70.0)], "peak", NOON_S + 60)[-1] == ("12", 70.0)
    moment = msgspec.structs.replace(row(0), end_s=NOON_S)
    assert by_hour([moment], "tasks", NOON_S + 60)[-1] == ("12", 10.0)


@pytest.mark.parametrize(
    ("language", "shown"),
    [("de", "05.11"), ("en", "11/5"), ("ja", "11/05"), ("zh", "11/5"), ("fr", "05/11")],
)
def test_a_day_is_written_as_its_readers_write_it(language: str, shown: str) -> None:
    assert month_and_day(date(2026, 11, 5), QLocale(language)) == shown


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
    until(lambda: "2046.5; of this machine: 1834.5" in page._credits.text())
    page._credited(Refused(1, "link_away", "No.", "Wait."))
    assert not page._credits.isVisibleTo(page)
    assert page._bars.accessibleDescription()
    for place in range(page._what.count()):
        page._what.setCurrentIndex(place)
        page._span.setCurrentIndex(0)
        until(lambda: page._bars.accessibleName() == "Bars by hour")
        assert page._bars.accessibleDescription().startswith(("0", "1", "2"))
        page._span.setCurrentIndex(2)
        until(lambda: page._bars.accessibleName() == "Bars by day")


def test_where_not_all_runs_have_room_days_are_asked_for(
    context: Context, served: ServedAgent, qtbot: QtBot, until: Until
) -> None:
    page = HistoryPage(context)
    qtbot.addWidget(page)
    page._take(HistoryIs(1, (row(0),), is_all=False))
    assert page.rows == (), "the latest of them are missing"
    until(lambda: bool(page.rows))
    assert [one.by for one in served.asked if isinstance(one, History)] == ["day"]


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
