"""The pages of a researcher: apply, see what became of it, register a lab node."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from server_stub.coordinator.gate import Service
from server_stub.coordinator.handlers import applications
from server_stub.coordinator.handlers.hosted import hosted
from server_stub.coordinator.handlers.operator import NewLab
from server_stub.coordinator.web.people import person_of
from server_stub.coordinator.web.route import Page
from server_stub.coordinator.web.visit import Visit, go, render

__all__ = ["PAGES"]


async def _research(service: Service, visit: Visit) -> Response:
    person = person_of(visit)
    found = await service.transact(lambda tx: applications.applications(tx, account=person.account))
    labs = await service.transact(lambda tx: applications.own_labs(tx, person.account))
    run_here = await service.transact(lambda tx: hosted(service.house, tx))
    return render(
        visit, "research.html", applications=found, labs=labs, hosted=run_here,
        coordinator_key=service.house.public_key.hex(),
    )  # fmt: skip


async def _research_act(service: Service, visit: Visit) -> Response:
    person, given = person_of(visit), visit.given
    application = given.get("application", "")
    if given.get("act") == "withdraw":
        await service.transact(
            lambda tx: applications.withdraw(tx, visit.now_s, person, application)
        )
    else:
        new = NewLab(
            name=given.get("name", "").strip(),
            public_key=given.get("key", "").strip().lower(),
            address=given.get("address", "").strip(),
            certificate_sha256=given.get("certificate", "").strip().lower() or None,
        )
        await service.transact(
            lambda tx: applications.register_lab(
                tx, visit.now_s, service.rng, person, application, new
            )
        )
    return go("/research")


async def _apply(service: Service, visit: Visit) -> Response:
    return render(visit, "apply.html", line=applications.LINE, short_most=applications.SHORT,
                  long_most=applications.LONG)  # fmt: skip


async def _apply_act(service: Service, visit: Visit) -> Response:
    person = person_of(visit)
    await service.transact(
        lambda tx: applications.apply(tx, visit.now_s, service.rng, person, visit.given)
    )
    return go("/research")


PAGES: Final = (
    Page("/research", _research, _research_act, "person"),
    Page("/research/apply", _apply, _apply_act, "person"),
)
