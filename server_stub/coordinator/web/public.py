"""The pages that anyone may read: home, how it works, questions, privacy, status, labs, leaders.

Owns: which facts each shows. What a page counts is asked of the database at most every few seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec
from starlette.responses import Response

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator.gate import Service, status_of
from server_stub.coordinator.handlers import (
    abuse,
    applications,
    certificates,
    operator,
    people,
    teams,
)
from server_stub.coordinator.handlers.hosted import hosted
from server_stub.coordinator.ledger import MICRO, day_of
from server_stub.coordinator.store import Transaction
from server_stub.coordinator.web.languages import translations
from server_stub.coordinator.web.route import Page, Show
from server_stub.coordinator.web.visit import Visit, go, render
from server_stub.web import charts

__all__ = ["PAGES", "day_names", "iso_day"]

R = TypeVar("R")

KEPT_S: Final = 5.0
CHART_DAYS: Final = 30
LEADERS: Final = 100


@dataclass(slots=True)
class _Kept:
    """Facts that many ask for, kept for `KEPT_S`."""

    at_s: float = 0.0
    facts: Any = None


async def _kept(
    service: Service, kept: dict[str, _Kept], name: str, work: Callable[[Transaction], R]
) -> R:
    tick_s = service.clock.monotonic_s()
    found = kept.get(name)
    if found is None or not 0 <= tick_s - found.at_s < KEPT_S:
        found = kept[name] = _Kept(tick_s, await service.transact(work))
    facts: R = found.facts
    return facts


def _plain(template: str) -> Show:
    async def show(service: Service, visit: Visit) -> Response:
        return render(visit, template)

    return show


def _with_hosted(template: str) -> Show:
    """A page that says more where the operator runs a lab node."""

    async def show(service: Service, visit: Visit) -> Response:
        found = await _kept(service, service.kept, "hosted", lambda tx: hosted(service.house, tx))
        return render(visit, template, hosted=found)

    return show


async def _home(service: Service, visit: Visit) -> Response:
    counts = await _kept(service, service.kept, "counts", _counts(service))
    return render(visit, "home.html", counts=counts)


async def _status(service: Service, visit: Visit) -> Response:
    today = day_of(service.clock.wall_s())
    counts = await _kept(service, service.kept, "counts", _counts(service))
    by_day = await _kept(service, service.kept, "by_day", lambda tx: _by_day(tx, today))
    title = translations(visit.language).gettext("Verified work by day")
    chart = charts.bars(title, [(_short_day(day), units) for day, units in by_day], "units")
    return render(visit, "status.html", counts=counts, chart=chart, by_day=by_day)


async def _labs(service: Service, visit: Visit) -> Response:
    now_s = service.clock.wall_s()
    found = await _kept(service, service.kept, "labs", lambda tx: applications.labs(tx, now_s))
    run_here = await _kept(service, service.kept, "hosted", lambda tx: hosted(service.house, tx))
    return render(visit, "labs.html", labs=found, hosted=run_here)


async def _leaders(service: Service, visit: Visit) -> Response:
    found = await _kept(service, service.kept, "leaders", lambda tx: people.leaders(tx, LEADERS))
    return render(visit, "leaders.html", leaders=found)


async def _teams(service: Service, visit: Visit) -> Response:
    name = visit.request.query_params.get("team", "")
    if not name:
        found = await _kept(service, service.kept, "teams", lambda tx: teams.ranked(tx, LEADERS))
        return render(visit, "teams.html", team=None, teams=found)
    try:
        team = await service.transact(lambda tx: teams.find(tx, name.replace("\0", "\ufffd")))
    except CoordinatorError as error:
        visit.error = error
        return render(visit, "teams.html", status_of(error), team=None, teams=[])
    return render(visit, "teams.html", team=team)


async def _report(service: Service, visit: Visit) -> Response:
    now_s = service.clock.wall_s()
    found = await _kept(service, service.kept, "labs", lambda tx: applications.labs(tx, now_s))
    done = visit.request.query_params.get("done", "")
    return render(visit, "report.html", labs=found, is_done=done == "1")


async def _report_act(service: Service, visit: Visit) -> Response:
    given = visit.given
    await service.transact(
        lambda tx: abuse.report(
            service.house, tx, visit.now_s, service.rng, visit.person, visit.address,
            given.get("lab", ""), given.get("report", ""),
        )
    )  # fmt: skip
    return go("/report?done=1")


async def _certificate(service: Service, visit: Visit) -> Response:
    """A check of a certificate by its code; the address on the paper leads here."""
    code = visit.request.query_params.get("code", "")[:64]
    if not code or visit.error is not None:
        return render(visit, "certificate.html", one=None, code=visit.given.get("code", ""))
    try:
        one = await service.transact(lambda tx: certificates.find(tx, code))
    except CoordinatorError as error:
        visit.error = error
        return render(visit, "certificate.html", status_of(error), one=None, code=code)
    house = service.house
    if visit.request.query_params.get("form") == "json":
        kept = msgspec.json.encode(certificates.sealed(house, one))
        return Response(
            msgspec.json.format(kept, indent=2), media_type="application/json",
            headers={"Content-Disposition": f'attachment; filename="gpugoblin-{one.code}.json"'},
        )  # fmt: skip
    return render(
        visit, "certificate.html", one=one, code="", seal=certificates.seal(house, one),
        coordinator_key=house.public_key.hex(),
    )  # fmt: skip


async def _certificate_act(service: Service, visit: Visit) -> Response:
    code = visit.given.get("code", "")
    one = await service.transact(lambda tx: certificates.find(tx, code))
    return go(f"/certificate?code={one.code}")


def _counts(service: Service) -> Callable[[Transaction], operator.Status]:
    now_s = service.clock.wall_s()
    return lambda tx: operator.status(tx, now_s, service.version, service.house.public_key)


def _by_day(tx: Transaction, today: int) -> list[tuple[int, float]]:
    """Verified work of each of the last days, in units, with days without any."""
    since = today - CHART_DAYS + 1
    found: dict[int, int] = dict(
        tx.rows("SELECT day, SUM(micro_units) FROM lab_day WHERE day >= ? GROUP BY day", since)
    )
    return [(day, found.get(day, 0) / MICRO) for day in range(since, today + 1)]


def day_names(days: range) -> list[str]:
    """`12-31` for each day since 1970: short enough for a chart, the same in every language."""
    return [_short_day(day) for day in days]


def _short_day(day: int) -> str:
    return datetime.fromtimestamp(day * 86_400, tz=UTC).strftime("%m-%d")


def iso_day(day: int) -> str:
    """`2026-12-31`, as fields of a day want it."""
    return datetime.fromtimestamp(day * 86_400, tz=UTC).strftime("%Y-%m-%d")


PAGES: Final = (
    Page("/", _home),
    Page("/how", _plain("how.html")),
    Page("/questions", _with_hosted("questions.html")),
    Page("/privacy", _with_hosted("privacy.html")),
    Page("/status", _status),
    Page("/labs", _labs),
    Page("/leaders", _leaders),
    Page("/teams", _teams),
    Page("/report", _report, _report_act),
    Page("/certificate", _certificate, _certificate_act),
)
