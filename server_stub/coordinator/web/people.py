"""The pages of a signed-in person: account, machines, team, credits.

Owns: which facts each shows, and which of its acts ask for a fresh sign-in.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from starlette.responses import Response

from gpugoblin.errors import CoordinatorError, WebError
from server_stub.coordinator.gate import Service
from server_stub.coordinator.handlers import captains, certificates, enrol, people, signin, teams
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.ledger import day_of
from server_stub.coordinator.web import paper
from server_stub.coordinator.web.languages import DEFAULT, LANGUAGES, translations
from server_stub.coordinator.web.public import day_names, iso_day
from server_stub.coordinator.web.route import Page
from server_stub.coordinator.web.visit import Visit, go, render
from server_stub.web import charts, forms

__all__ = ["PAGES", "need_fresh", "person_of"]

CHART_DAYS: Final = 30
LISTED_DAYS: Final = 400


def person_of(visit: Visit) -> Person:
    """Who is signed in; the routes let nobody else come here."""
    if visit.person is None:
        raise WebError("form_foreign")
    return visit.person


def need_fresh(service: Service, visit: Visit) -> None:
    """Raises CoordinatorError `signin_stale` when the sign-in is too old for what is asked."""
    if visit.now_s - person_of(visit).signed_in_s > service.house.settings.fresh_s:
        raise CoordinatorError("signin_stale")


async def _account(service: Service, visit: Visit) -> Response:
    person = person_of(visit)
    found = await service.transact(
        lambda tx: signin.sessions(service.house, tx, visit.now_s, person.account, visit.session)
    )
    return render(
        visit, "account.html", is_saved=visit.request.query_params.get("saved") == "1",
        sessions=found,
    )  # fmt: skip


async def _account_act(service: Service, visit: Visit) -> Response:
    given, person = visit.given, person_of(visit)
    if given.get("act") == "end":
        need_fresh(service, visit)
        await service.transact(
            lambda tx: signin.sign_out_other(
                tx, visit.now_s, person.account, given.get("session", "")
            )
        )
        return go("/account")
    language = given.get("language", DEFAULT)
    language = language if language in LANGUAGES else DEFAULT
    await service.transact(
        lambda tx: people.change(
            tx, visit.now_s, person, given.get("name", "").strip(), language,
            given.get("listed") == "1",
        )
    )  # fmt: skip
    response = go("/account?saved=1")
    forms.set_cookie(response, forms.LANGUAGE, language, 365 * 86_400.0)
    return response


async def _export(service: Service, visit: Visit) -> Response:
    person = person_of(visit)
    found = await service.transact(lambda tx: people.export(tx, visit.now_s, person))
    own = await service.transact(lambda tx: certificates.own(tx, person.account))
    found["certificates"] = [certificates.sealed(service.house, one) for one in own]
    return Response(
        msgspec.json.format(msgspec.json.encode(found), indent=2),
        media_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="gpugoblin-account.json"'},
    )


async def _close(service: Service, visit: Visit) -> Response:
    return render(visit, "close.html")


async def _close_act(service: Service, visit: Visit) -> Response:
    person = person_of(visit)
    need_fresh(service, visit)
    if visit.given.get("name", "").strip() != person.name:
        raise CoordinatorError("account_name_differs", name=person.name)
    await service.transact(lambda tx: people.close(tx, visit.now_s, person))
    response = go("/")
    forms.set_cookie(response, forms.SESSION, "")
    return response


async def _machines(service: Service, visit: Visit) -> Response:
    person = person_of(visit)
    found = await service.transact(lambda tx: people.machines(tx, visit.now_s, person.account))
    approved = visit.request.query_params.get("approved", "")[:64]
    return render(
        visit, "machines.html", machines=found,
        approved=next((one for one in found if one.device == approved), None),
    )  # fmt: skip


async def _machines_act(service: Service, visit: Visit) -> Response:
    person, given = person_of(visit), visit.given
    if given.get("act") == "revoke":
        need_fresh(service, visit)
        await service.transact(
            lambda tx: people.revoke_machine(tx, visit.now_s, person, given.get("device", ""))
        )
        return go("/machines")
    decision = await service.transact(
        lambda tx: enrol.approve(
            service.house, tx, visit.now_s, service.rng, person.name, given.get("code", ""),
            given.get("fingerprint", ""),
        )
    )  # fmt: skip
    if decision.error is not None:
        raise decision.error
    return go(f"/machines?approved={decision.device}")


async def _credits(service: Service, visit: Visit) -> Response:
    person = person_of(visit)
    today = day_of(visit.now_s)
    days = range(today - CHART_DAYS + 1, today + 1)
    found = await service.transact(lambda tx: people.days(tx, person.account, today - LISTED_DAYS))
    total = await service.transact(lambda tx: people.units_of(tx, person.account))
    by_day = dict.fromkeys(days, 0.0)
    for one in found:
        if one.day in by_day:
            by_day[one.day] += one.units
    title = translations(visit.language).gettext("Your verified work by day")
    chart = charts.bars(title, list(zip(day_names(days), by_day.values(), strict=True)), "units")
    labs = await service.transact(lambda tx: certificates.labs_of(tx, person.account))
    issued = await service.transact(lambda tx: certificates.own(tx, person.account))
    return render(
        visit, "credits.html", days=found, total=total, chart=chart, labs=labs, issued=issued,
        since=iso_day(min((first for _, _, first in labs), default=today)), until=iso_day(today),
        is_spoken=paper.font_of(visit.language) is not None,
    )  # fmt: skip


async def _credits_act(service: Service, visit: Visit) -> Response:
    person, given = person_of(visit), visit.given
    code = await service.transact(
        lambda tx: certificates.issue(
            tx, visit.now_s, service.rng, person, given.get("lab", ""), given.get("since", ""),
            given.get("until", ""),
        )
    )  # fmt: skip
    return go(f"/credits/certificate?code={code}")


async def _certificate(service: Service, visit: Visit) -> Response:
    person, code = person_of(visit), visit.request.query_params.get("code", "")
    if not code:
        return go("/credits")
    one = await service.transact(lambda tx: certificates.find_own(tx, person.account, code))
    house = service.house
    seal = certificates.seal(house, one)
    # Letters of Japanese take a tenth of a second; other requests do not wait for them.
    drawn = await asyncio.to_thread(
        paper.draw, one, seal, house.settings.public_url, visit.language
    )
    return Response(
        drawn,
        media_type="application/pdf",
        headers={"Content-Disposition": f'attachment; filename="gpugoblin-{one.code}.pdf"'},
    )


async def _team(service: Service, visit: Visit) -> Response:
    person = person_of(visit)
    team = await service.transact(lambda tx: teams.own(tx, person.account))
    code = await service.transact(lambda tx: teams.code_of(tx, person.account))
    is_captain = await service.transact(lambda tx: captains.is_captain(tx, person.account))
    others = await service.transact(lambda tx: captains.members(tx, person))
    return render(visit, "team.html", team=team, code=code, is_captain=is_captain, others=others)


async def _team_act(service: Service, visit: Visit) -> Response:
    person, given = person_of(visit), visit.given
    act, name, code = given.get("act"), given.get("name", "").strip(), given.get("code", "")
    rng, now_s = service.rng, visit.now_s
    if act == "remove":
        await service.transact(lambda tx: captains.remove(tx, now_s, rng, person, name))
    elif act == "code":
        await service.transact(lambda tx: captains.new_code(tx, now_s, rng, person))
    elif act == "hand_over":
        need_fresh(service, visit)
        await service.transact(lambda tx: captains.hand_over(tx, now_s, person, name))
    elif act == "leave":
        await service.transact(lambda tx: teams.leave(tx, visit.now_s, person.account))
    elif act == "create":
        await service.transact(lambda tx: teams.create(tx, visit.now_s, service.rng, person, name))
    else:
        await service.transact(lambda tx: teams.join(tx, visit.now_s, person, code))
    return go("/team")


PAGES: Final = (
    Page("/account", _account, _account_act, "person"),
    Page("/account/export", _export, None, "person"),
    Page("/account/close", _close, _close_act, "person"),
    Page("/machines", _machines, _machines_act, "person"),
    Page("/team", _team, _team_act, "person"),
    Page("/credits", _credits, _credits_act, "person"),
    Page("/credits/certificate", _certificate, None, "person"),
)
