"""What ran on the owner's side: for whom, when, how much, at what cost. Kept for 400 days.

Owns: one SQLite file with stretches of lending and bytes a day. Must not: know what was computed;
stop lending when the disk is full: what cannot be written is told once and counted on in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final, Literal, TypeAlias

from app.agent.journal import opened
from app.control.messages import HistoryRow
from gpugoblin.errors import AgentError

__all__ = ["KEPT_DAYS", "EnergySource", "History", "Stretch"]

KEPT_DAYS: Final = 400
EnergySource: TypeAlias = Literal["nvml", "rapl", "estimate"]

_SCHEMA: Final = """
create table if not exists stretches (
    card integer not null, lab text not null, begin_s real not null, end_s real not null,
    tasks integer not null, busy_s real not null, energy_wh real not null, source text not null,
    cost real not null, currency text not null, peak_c real,
    received integer not null, sent integer not null,
    primary key (begin_s, card, lab)
) without rowid;
create table if not exists traffic (
    day text primary key, received integer not null, sent integer not null
) without rowid;
"""
_COLUMNS: Final = (
    "begin_s, end_s, card, lab, tasks, busy_s, energy_wh, source, cost, currency, peak_c,"
    " received, sent"
)


@dataclass(slots=True)
class Stretch:
    """One card for one lab without a break. Times are Unix seconds."""

    card: int
    lab: str
    begin_s: float
    end_s: float
    currency: str
    tasks: int = 0
    busy_s: float = 0.0
    energy_wh: float = 0.0
    energy_source: EnergySource = "estimate"
    cost: float = 0.0
    peak_c: float | None = None
    received: int = 0
    sent: int = 0

    def row(self) -> HistoryRow:
        """As the control socket shows it."""
        return HistoryRow(
            self.begin_s, self.end_s, self.card, self.lab, self.tasks, round(self.busy_s, 3),
            round(self.energy_wh, 3), self.energy_source, round(self.cost, 5), self.currency,
            self.peak_c, self.received, self.sent,
        )  # fmt: skip


class History:
    """Opened once by the one agent of a state directory; used from one thread.

    Raises:
        AgentError: `state_damaged`: the file is no history (nothing is deleted);
            `state_unwritable`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = opened(path, _SCHEMA)

    def keep(self, stretches: Iterable[Stretch], day: str, received: int, sent: int) -> None:
        """Writes stretches as they are now, and adds bytes to a day, in one transaction.

        Raises:
            AgentError: `state_unwritable`; nothing was written then.
        """
        rows = [
            (each.begin_s, each.end_s, each.card, each.lab, each.tasks, each.busy_s,
             each.energy_wh, each.energy_source, each.cost, each.currency, each.peak_c,
             each.received, each.sent)
            for each in stretches
        ]  # fmt: skip
        try:
            with self._database:
                self._database.execute("begin immediate")
                self._database.executemany(
                    f"insert or replace into stretches ({_COLUMNS})"  # noqa: S608 - constants
                    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    rows,
                )
                self._database.execute(
                    "insert into traffic values (?, ?, ?) on conflict (day) do update"
                    " set received = received + excluded.received, sent = sent + excluded.sent",
                    (day, received, sent),
                )
        except sqlite3.Error as cause:
            raise AgentError("state_unwritable", path=self._path, reason=cause) from cause

    def prune(self, now_s: float, zone: tzinfo) -> None:
        """Forgets what is older than 400 days. Raises AgentError `state_unwritable`."""
        oldest_s = now_s - KEPT_DAYS * 86_400
        day = datetime.fromtimestamp(oldest_s, zone).date().isoformat()
        try:
            self._database.execute("delete from stretches where end_s < ?", (oldest_s,))
            self._database.execute("delete from traffic where day < ?", (day,))
        except sqlite3.Error as cause:
            raise AgentError("state_unwritable", path=self._path, reason=cause) from cause

    def traffic(self, now_s: float, zone: tzinfo) -> tuple[int, int]:
        """Bytes sent and received today and in this month, as they were kept."""
        day = datetime.fromtimestamp(now_s, zone).date()
        query = "select coalesce(sum(received + sent), 0) from traffic where day >= ? and day <= ?"
        return (
            int(self._database.execute(query, (f"{day}", f"{day}")).fetchone()[0]),
            int(self._database.execute(query, (f"{day:%Y-%m}-01", f"{day}")).fetchone()[0]),
        )

    def energy_wh(self, since_s: float) -> float:
        """Of all stretches that began at or after a moment."""
        query = "select coalesce(sum(energy_wh), 0) from stretches where begin_s >= ?"
        return float(self._database.execute(query, (since_s,)).fetchone()[0])

    def rows(
        self, since_s: float, until_s: float, limit: int
    ) -> tuple[tuple[HistoryRow, ...], bool]:
        """Stretches that began in between, the oldest first, and whether these are all."""
        found = self._database.execute(
            f"select {_COLUMNS} from stretches"  # noqa: S608 - constants
            " where begin_s >= ? and begin_s < ? order by begin_s, card, lab limit ?",
            (since_s, until_s, limit + 1),
        ).fetchall()
        return tuple(HistoryRow(*row) for row in found[:limit]), len(found) <= limit

    def days(
        self, since_s: float, until_s: float, limit: int, zone: tzinfo
    ) -> tuple[tuple[HistoryRow, ...], bool]:
        """Sums a day, card and currency, by the day on which a stretch began."""
        rows, is_all = self.rows(since_s, until_s, 100_000)
        sums: dict[tuple[str, int, str], Stretch] = {}
        for row in rows:
            date = datetime.fromtimestamp(row.begin_s, zone).date()
            begin_s = datetime(date.year, date.month, date.day, tzinfo=zone).timestamp()
            key = (date.isoformat(), row.card, row.currency)
            if key not in sums:
                end = date + timedelta(days=1)
                end_s = datetime(end.year, end.month, end.day, tzinfo=zone).timestamp()
                sums[key] = Stretch(row.card, "", begin_s, end_s, row.currency,
                                    energy_source=row.energy_source)  # fmt: skip
            _add(sums[key], row)
        ordered = [sums[key].row() for key in sorted(sums)]
        return tuple(ordered[:limit]), is_all and len(ordered) <= limit

    def close(self) -> None:
        self._database.close()


def _add(whole: Stretch, row: HistoryRow) -> None:
    whole.tasks += row.tasks
    whole.busy_s += row.busy_s
    whole.energy_wh += row.energy_wh
    whole.cost += row.cost
    whole.received += row.bytes_received
    whole.sent += row.bytes_sent
    if row.energy_source == "estimate":
        whole.energy_source = "estimate"
    peaks = [peak for peak in (whole.peak_c, row.peak_c) if peak is not None]
    whole.peak_c = max(peaks, default=None)
