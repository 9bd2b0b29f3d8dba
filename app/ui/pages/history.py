"""The page History: hours, energy, cost, tasks and heat, as bars and as a table to take along."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from PySide6.QtCore import QDate, QLocale
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
)

from app.control.messages import (
    Answer,
    History,
    HistoryIs,
    HistoryRow,
    Machines,
    MachinesAre,
)
from app.control.texts import _, spoken_language
from app.ui.facts import labs_of
from app.ui.pages.page import Context, Page, paragraph
from app.ui.widgets.chart import Bars
from gpugoblin.units import format_bytes

__all__ = ["HistoryPage", "as_csv", "by_day", "by_hour", "month_and_day"]

DAY_S: Final = 86_400.0
HOUR_S: Final = 3_600.0
DAY_HOURS: Final = 24
SPANS: Final = ((1, "24 hours"), (30, "30 days"), (365, "A year"))
MOST_ROWS: Final = 5000
VALUES: Final = (
    ("hours", "Hours", "h"),
    ("wh", "Energy", "Wh"),
    ("cost", "Cost", ""),
    ("tasks", "Tasks", ""),
    ("peak", "Heat", "°C"),
)
"""Code, name and unit of what the bars can show; a cost is in the owner's currency."""


def by_day(
    rows: Sequence[HistoryRow], value: str, end_s: float, days: int
) -> list[tuple[date, float]]:
    """One of `VALUES` for each of the last days, local time: sums, of temperatures the highest."""
    last = datetime.fromtimestamp(end_s).date()
    found: dict[date, float] = {
        last - timedelta(days=back): 0.0 for back in range(days - 1, -1, -1)
    }
    for row in rows:
        day = datetime.fromtimestamp(row.begin_s).date()
        if day in found:
            found[day] = _joined(value)((found[day], _value(row, value)))
    return list(found.items())


def by_hour(rows: Sequence[HistoryRow], value: str, end_s: float) -> list[tuple[str, float]]:
    """The same for each of the last 24 hours, the one that runs included.

    A stretch of lending is spread evenly over the hours that it took.
    """
    last_s = end_s // HOUR_S * HOUR_S
    found = []
    for begin_s in (last_s - HOUR_S * back for back in range(DAY_HOURS - 1, -1, -1)):
        parts = [
            _value(row, value) * (1.0 if value == "peak" else _share(row, begin_s))
            for row in rows
            if _share(row, begin_s) > 0
        ]
        name = datetime.fromtimestamp(begin_s).strftime("%H")
        found.append((name, float(_joined(value)(parts or (0.0,)))))
    return found


def month_and_day(day: date, locale: QLocale) -> str:
    """A day without its year, as the locale orders it."""
    form = locale.dateFormat(QLocale.FormatType.ShortFormat)
    form = re.sub(r"^y+[^dM]*|[^dM]*y+$", "", form)
    return locale.toString(QDate(day.year, day.month, day.day), form)


def as_csv(rows: Sequence[HistoryRow]) -> str:
    """The rows as a table for other programs; moments are ISO 8601 in local time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [name for name in HistoryRow.__struct_fields__]
    writer.writerow(names)
    for row in rows:
        values = [getattr(row, name) for name in names]
        writer.writerow(
            datetime.fromtimestamp(value).astimezone().isoformat(timespec="seconds")
            if name in ("begin_s", "end_s")
            else ""
            if value is None
            else value
            for name, value in zip(names, values, strict=True)
        )
    return text.getvalue()


class HistoryPage(Page):
    """What ran. It is asked of the agent when the page is looked at."""

    def __init__(self, context: Context) -> None:
        super().__init__(_("History"), context)
        self.rows: tuple[HistoryRow, ...] = ()
        self._span = QComboBox()
        for days, name in SPANS:
            self._span.addItem(_(name), days)
        self._span.setCurrentIndex(1)
        self._span.setAccessibleName(_("Span of time"))
        self._span.currentIndexChanged.connect(lambda _place: self.come_to_front())
        self._what = QComboBox()
        for word, name, _unit in VALUES:
            self._what.addItem(_(name), word)
        self._what.setAccessibleName(_("What the bars show"))
        self._what.currentIndexChanged.connect(lambda _place: self._paint())
        self._save = QPushButton(_("Save as CSV …"))
        self._save.clicked.connect(self._save_as)
        self._sums = paragraph("")
        self._credits = paragraph("")
        self._credits.setObjectName("quiet")
        self._credits.hide()
        self._bars = Bars(_("Bars by day"))
        self._table = _table()
        row = QHBoxLayout()
        for widget in (QLabel(_("Show")), self._what, QLabel(_("of the last")), self._span):
            row.addWidget(widget)
        row.addStretch(1)
        self.column.addLayout(row)
        sums = QHBoxLayout()
        sums.addWidget(self._sums, 1)
        sums.addWidget(self._save)
        self.column.addLayout(sums)
        self.column.addWidget(self._credits)
        self.column.addWidget(self._bars)
        self.column.addWidget(self._table, 1)

    def come_to_front(self) -> None:
        self._ask("run")
        link = self.context.link
        link.ask(Machines(link.number()), self._credited)

    def _credited(self, answer: Answer) -> None:
        """The coordinator counts them; where it cannot be asked there is no line."""
        machines = answer.machines if isinstance(answer, MachinesAre) else ()
        self._credits.setText(
            _("Credits of your account: {all:.1f}; of this machine: {own:.1f}.").format(
                all=sum(one.credits for one in machines),
                own=sum(one.credits for one in machines if one.is_this),
            )
        )
        self._credits.setVisible(bool(machines))

    def _ask(self, by: Literal["run", "day"]) -> None:
        now_s = self.context.now_s()
        since_s = max(0.0, now_s - DAY_S * int(self._span.currentData()))
        link = self.context.link
        link.ask(History(link.number(), since_s, now_s + 1, by, MOST_ROWS), self._take)

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, HistoryIs):
            if not answer.is_all and any(row.lab for row in answer.rows):
                self._ask("day")  # the latest were left out; sums of days have room for all
                return
            self.rows = answer.rows
            self._paint()

    def _paint(self) -> None:
        rows, what = self.rows, str(self._what.currentData())
        days, now_s = int(self._span.currentData()), self.context.now_s()
        currency = rows[-1].currency if rows else ""
        unit = next(each for word, _name, each in VALUES if word == what)
        unit = currency if what == "cost" else _(unit) if unit else ""
        if days == 1:
            self._bars.setAccessibleName(_("Bars by hour"))
            points = by_hour(rows, what, now_s)
        else:
            self._bars.setAccessibleName(_("Bars by day"))
            locale = QLocale(spoken_language())
            shown = by_day(rows, what, now_s, days)
            points = [(month_and_day(day, locale), total) for day, total in shown]
        self._bars.show_points(points, unit, join=_joined(what))
        self._sums.setText(
            _("{tasks} tasks in {hours:.1f} hours, {kwh:.2f} kWh, {cost:.2f} {currency}").format(
                tasks=sum(row.tasks for row in rows),
                hours=sum(row.busy_s for row in rows) / 3600,
                kwh=sum(row.energy_wh for row in rows) / 1000,
                cost=sum(row.cost for row in rows),
                currency=currency,
            )
            if rows
            else _("Nothing has run in this time.")
        )
        self._save.setEnabled(bool(rows))
        labs = labs_of(self.context.link.items)
        _fill(self._table, rows, {lab: name for lab, (name, _about) in labs.items()})

    def _save_as(self) -> None:
        name, _kind = QFileDialog.getSaveFileName(self, _("Save as CSV"), "gpugoblin.csv")
        if not name:
            return
        try:
            Path(name).write_text(as_csv(self.rows), encoding="utf-8")
        except OSError as error:
            self.context.tell(_("It could not be saved: {why}").format(why=error.strerror))
        else:
            self.context.tell(_("Saved as {name}.").format(name=name))


def _value(row: HistoryRow, value: str) -> float:
    return {
        "hours": row.busy_s / 3600,
        "wh": row.energy_wh,
        "cost": row.cost,
        "tasks": float(row.tasks),
        "peak": row.peak_c or 0.0,
    }[value]


def _joined(value: str) -> Callable[[Iterable[float]], float]:
    """How several of a kind become one."""
    return max if value == "peak" else sum


def _share(row: HistoryRow, begin_s: float) -> float:
    """Which share of a stretch lies in the hour that begins then."""
    inside_s = min(row.end_s, begin_s + HOUR_S) - max(row.begin_s, begin_s)
    long_s = row.end_s - row.begin_s
    if long_s <= 0:
        return 1.0 if begin_s <= row.begin_s < begin_s + HOUR_S else 0.0
    return max(0.0, inside_s / long_s)


def _table() -> QTableWidget:
    heads = (_("Begin"), _("Card"), _("Lab"), _("Tasks"), _("Hours"), _("Wh"), _("Cost"),
             _("Hottest"), _("Data"))  # fmt: skip
    table = QTableWidget(0, len(heads))
    table.setHorizontalHeaderLabels(heads)
    table.setAccessibleName(_("What ran"))
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.verticalHeader().hide()
    table.setAlternatingRowColors(True)
    table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    table.horizontalHeader().setStretchLastSection(True)
    table.setMinimumHeight(220)
    table.setTabKeyNavigation(False)
    return table


def _fill(table: QTableWidget, rows: Sequence[HistoryRow], labs: Mapping[str, str]) -> None:
    """`labs`: the names of those that have a grant now; the others are shown by their ids."""
    locale = QLocale()
    table.setRowCount(len(rows))
    for place, row in enumerate(reversed(rows)):
        cells = (
            datetime.fromtimestamp(row.begin_s).strftime("%Y-%m-%d %H:%M"),
            str(row.card),
            labs.get(row.lab, row.lab),
            locale.toString(row.tasks),
            f"{row.busy_s / 3600:.1f}",
            f"{row.energy_wh:.0f}" + (" ≈" if row.energy_source == "estimate" else ""),
            f"{row.cost:.2f} {row.currency}",
            "" if row.peak_c is None else f"{row.peak_c:.0f} °C",
            format_bytes(row.bytes_received + row.bytes_sent),
        )
        for column, text in enumerate(cells):
            table.setItem(place, column, QTableWidgetItem(text))
