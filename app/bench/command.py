"""`gpugoblin bench card`: what each card of this machine reaches, in the sandbox.

Owns: the command, its table and its JSON. It starts engines as the agent does, one card after the
other, and asks no agent: one that lends meanwhile takes its share of the card.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from msgspec import Struct

from app.agent.card_start import card_memory_bytes, start_card_engine, why_not_lent
from app.agent.own_task import await_ready
from app.agent.settings import Settings, read_settings
from app.bench.measure import Figure, engine_timer, measured
from app.host.cards import find_cards
from app.host.engine import Engine
from gpugoblin.clock import SystemClock
from gpugoblin.errors import GoblinError

__all__ = ["Report", "bench"]

LIMIT_S: Final = 17.0
"""Of a card: from when on nothing more of it is begun, which leaves the last measurement three
seconds. Cards do not share it: eight would spend it on starting engines alone."""
NOTHING_STATUS: Final = 3


class Report(Struct, frozen=True):
    """What one card reaches. `problem`: why it was not measured; empty where it was."""

    name: str
    driver: str = ""
    level: str = ""
    figures: tuple[Figure, ...] = ()
    problem: str = ""


Start = Callable[[], Engine]
"""Starts an engine; raises SandboxError, EngineError."""


def bench(words: Sequence[str]) -> int:
    """Measures what each card of this machine reaches: `gpugoblin bench card`."""
    parser = argparse.ArgumentParser(prog="gpugoblin bench", description=bench.__doc__)
    parser.add_argument("what", choices=["card"])
    parser.add_argument("--json", action="store_true", help="tell by JSON, one object a line")
    parser.add_argument(
        "--software", action="store_true", help="drivers that compute on the processor as well"
    )
    options = parser.parse_args(list(words))
    is_any = is_measured = False
    with TemporaryDirectory(prefix="gpugoblin-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # an engine of a user of its own goes through
        for report in _reports(read_settings(None), folder, software=options.software):
            told = msgspec.json.encode(report).decode() if options.json else _table(report)
            print(told, flush=True)
            is_any, is_measured = True, is_measured or bool(report.figures)
    if not is_any:
        print(
            "gpugoblin: no card can be computed on here; `gpugoblin doctor` says why.",
            file=sys.stderr,
        )
    return 0 if is_measured else NOTHING_STATUS


def _reports(settings: Settings, folder: Path, *, software: bool) -> Iterator[Report]:
    """Of one card after the other, as each is done."""
    cards = [
        card
        for card in find_cards().cards
        if not card.unsuited and (software or not why_not_lent(settings, card))
    ]
    for card in cards:
        yield _report(
            card.name,
            card_memory_bytes(settings, card),
            partial(start_card_engine, settings, folder, card),
        )


def _report(name: str, memory_bytes: int, start: Start) -> Report:
    clock = SystemClock()
    ends_s = clock.monotonic_s() + LIMIT_S
    try:
        engine = start()
        try:
            ready = await_ready(engine)
            timer = engine_timer(engine, clock)
            figures = measured(timer, clock, memory_bytes, ends_s, ready.classes)
        finally:
            engine.close()
    except GoblinError as error:
        return Report(name, problem=str(error))
    return Report(name, ready.driver, ready.level, tuple(figures))


def _table(report: Report) -> str:
    head = f"{report.name}: {report.driver}, sandbox {report.level}"
    if report.problem:
        return f"{report.name}: not measured. {report.problem}"
    lines = [f"  {one.what:26} {_value(one)}" for one in report.figures]
    return "\n".join([head, *lines])


def _value(figure: Figure) -> str:
    if figure.value is None:
        return "not reached within the time and memory"
    unit = "elements" if figure.unit == "GB/s" else "rows and columns"
    if figure.unit == "us":
        return f"{figure.value:10.3g} us"
    return f"{figure.value:10.4g} {figure.unit:7} ({figure.size} {unit})"
