"""Commands that look at a running agent: status, why, settings, logs, history.

Owns: what they print, plain, for a terminal, and as JSON. Must not: import the agent, Qt or NumPy:
they answer in milliseconds.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from app.control import words
from app.control.messages import (
    CardItem,
    History,
    HistoryIs,
    HistoryRow,
    Item,
    Logs,
    LogsAre,
    SettingsAre,
    SettingsDeclared,
    SettingsDescribe,
    SettingsGet,
    SettingsSet,
    Value,
)
from app.control.texts import _
from gpugoblin.errors import AgentError
from gpugoblin.units import format_bytes

if TYPE_CHECKING:
    from app.control.client import ControlClient

__all__ = ["add_looking", "settings_change"]

DAY_S: Final = 86_400.0
PAGE_ROWS: Final = 5000

Add = Callable[..., argparse.ArgumentParser]
Connect = Callable[[argparse.Namespace], "ControlClient"]


def add_looking(add: Add, connect: Connect) -> None:
    """Adds these commands to a parser."""

    def command(
        name: str, run: Callable[[argparse.Namespace, ControlClient], int], text: str
    ) -> argparse.ArgumentParser:
        def connected(options: argparse.Namespace) -> int:
            with connect(options) as control:
                return run(options, control)

        parser = add(name, connected, text)
        parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
        return parser

    command("status", _status, "Show what a running agent does, and why.")
    command("why", _why, "Say in one line for each card why it is lent or not, until when.")
    parser = command("settings", _settings, "Show the settings, or change some.")
    parser.add_argument("changes", nargs="*", metavar="NAME[=VALUE]", help="a value as in TOML")
    parser.add_argument("--explain", action="store_true", help="with what each setting means")
    parser = command("logs", _logs, "Show the agent's last lines, fit to be sent to others.")
    parser.add_argument("--lines", type=int, default=200, metavar="N")
    parser = command("history", _history, "Show what ran, for whom, and what it cost.")
    parser.add_argument("--days", type=int, default=14, metavar="N", help="so many days back")
    parser.add_argument("--runs", action="store_true", help="every stretch, not sums a day")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every stretch to a file")


def _print_json(values: Iterable[object]) -> None:
    for value in values:
        print(msgspec.json.encode(value).decode())


def _status(options: argparse.Namespace, control: ControlClient) -> int:
    items = control.status()
    if options.json:
        _print_json(items.values())
        return 0
    if not sys.stdout.isatty():
        _plain_status(items)
        return 0
    from app.control.screen import print_status

    print_status(items, time.time())
    return 0


def _plain_status(items: Mapping[str, Item]) -> None:
    """Without the library for terminals, which takes longer to load than all else."""
    from app.control.plain import status_lines

    for line in status_lines(items, time.time()):
        print(line)


def _why(options: argparse.Namespace, control: ControlClient) -> int:
    cards = [item for item in control.status().values() if isinstance(item, CardItem)]
    if options.json:
        _print_json(
            {"card": card.card, "ruling": card.ruling, "reasons": card.reasons,
             "until_s": card.until_s, "why": words.why(card, time.time())}
            for card in cards
        )  # fmt: skip
        return 0
    for card in cards:
        print(words.why(card, time.time()))
    if not cards:
        print(_("This agent has no card to lend."))
    return 0


def _settings(options: argparse.Namespace, control: ControlClient) -> int:
    answer = control.ask(SettingsGet(control.number()))
    asked = [text for text in options.changes if "=" in text]
    if asked:
        revision = answer.revision if isinstance(answer, SettingsAre) else 0
        changes = dict(settings_change(text) for text in asked)
        answer = control.ask(SettingsSet(control.number(), revision, changes))
    values = answer.values if isinstance(answer, SettingsAre) else {}
    if options.json:
        _print_json([values])
        return 0
    sentences: dict[str, str] = {}
    if options.explain:
        declared = control.ask(SettingsDescribe(control.number()))
        if isinstance(declared, SettingsDeclared):
            sentences = {each.name: each.description for each in declared.settings}
    from gpugoblin.settings import toml

    shown = [text.partition("=")[0].strip() for text in options.changes] or list(values)
    for name in shown:
        if name not in values:
            raise AgentError("change_malformed", text=name[:100])
        if name in sentences:
            print(f"# {sentences[name]}")
        print(f"{name} = {toml(values[name])}")
    return 0


def settings_change(text: str) -> tuple[str, Value]:
    """The name and the value of `NAME=VALUE`; a value that is no TOML is a text.

    Raises:
        AgentError: `change_malformed`.
    """
    name, equals, literal = text.partition("=")
    if not equals or not name.strip():
        raise AgentError("change_malformed", text=text[:100])
    try:
        value: object = tomllib.loads(f"value = {literal.strip()}")["value"]
    except (ValueError, RecursionError):
        value = literal.strip()
    if isinstance(value, list):
        value = tuple(str(item) for item in value)
    if not isinstance(value, (str, int, float, bool, tuple)):
        raise AgentError("change_malformed", text=text[:100])
    return name.strip(), value


def _logs(options: argparse.Namespace, control: ControlClient) -> int:
    answer = control.ask(Logs(control.number(), max(1, min(5000, options.lines))))
    lines = answer.lines if isinstance(answer, LogsAre) else ()
    if options.json:
        _print_json(lines)
        return 0
    for line in lines:
        print(f"{datetime.fromtimestamp(line.at_s):%Y-%m-%d %H:%M:%S}  {line.text}")
    return 0


def _history(options: argparse.Namespace, control: ControlClient) -> int:
    if options.csv is not None:
        rows = list(_all_rows(control))
        _write_csv(options.csv, rows)
        print(_("Wrote {n} stretches to {file}.").format(n=len(rows), file=options.csv))
        return 0
    since_s = max(0.0, time.time() - options.days * DAY_S)
    by: Literal["run", "day"] = "run" if options.runs else "day"
    answer = control.ask(History(control.number(), since_s, by=by, limit=PAGE_ROWS))
    rows = list(answer.rows) if isinstance(answer, HistoryIs) else []
    if options.json:
        _print_json(rows)
        return 0
    for row in rows:
        print(_row_line(row, is_day=not options.runs))
    if not rows:
        print(_("Nothing was lent in this time."))
    return 0


def _all_rows(control: ControlClient) -> Iterable[HistoryRow]:
    since_s, seen = 0.0, set[tuple[float, int, str]]()
    while True:
        answer = control.ask(History(control.number(), since_s, limit=PAGE_ROWS))
        if not isinstance(answer, HistoryIs):
            return
        for row in answer.rows:
            key = (row.begin_s, row.card, row.lab)
            if key not in seen:
                seen.add(key)
                yield row
        if answer.is_all or not answer.rows:
            return
        since_s = answer.rows[-1].begin_s


def _write_csv(path: Path, rows: Iterable[HistoryRow]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HistoryRow.__struct_fields__)
        writer.writerows([getattr(row, name) for name in HistoryRow.__struct_fields__]
                         for row in rows)  # fmt: skip


def _row_line(row: HistoryRow, *, is_day: bool) -> str:
    begin = datetime.fromtimestamp(row.begin_s)
    when = f"{begin:%Y-%m-%d}" if is_day else f"{begin:%Y-%m-%d %H:%M}"
    about = _("about ") if row.energy_source == "estimate" else ""
    peak = "" if row.peak_c is None else _(", at most {c:.0f} °C").format(c=row.peak_c)
    lab = "" if is_day else _(" for {lab}").format(lab=row.lab)
    return _(
        "{when}  card {card}{lab}: {tasks} tasks, {hours:.2f} h computing, {about}{energy:.3f} kWh"
        " ({cost:.2f} {currency}), {received} received, {sent} sent{peak}"
    ).format(
        when=when, card=row.card, lab=lab, tasks=row.tasks, hours=row.busy_s / 3600, about=about,
        energy=row.energy_wh / 1000, cost=row.cost, currency=row.currency,
        received=format_bytes(row.bytes_received), sent=format_bytes(row.bytes_sent), peak=peak,
    )  # fmt: skip
