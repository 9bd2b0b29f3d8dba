"""The pages of an operator: applications, labs, quotas, machines, reports, the record."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from gpugoblin.ids import DeviceId
from server_stub.coordinator import audit
from server_stub.coordinator.gate import Service
from server_stub.coordinator.handlers import abuse, applications, operator, quotas
from server_stub.coordinator.web.people import need_fresh, person_of
from server_stub.coordinator.web.route import Page
from server_stub.coordinator.web.visit import Visit, go, render

__all__ = ["PAGES"]

RECORD_LINES: Final = 200


async def _applications(service: Service, visit: Visit) -> Response:
    found = await service.transact(lambda tx: applications.applications(tx))
    return render(visit, "review.html", applications=found)


async def _application(service: Service, visit: Visit) -> Response:
    number = visit.parameter("application")
    found = await service.transact(lambda tx: applications.find(tx, number))
    return render(visit, "application.html", one=found, long_most=applications.LONG)


async def _application_act(service: Service, visit: Visit) -> Response:
    person, given = person_of(visit), visit.given
    number = visit.parameter("application")
    need_fresh(service, visit)
    await service.transact(
        lambda tx: applications.decide(
            tx, visit.now_s, person, number, given.get("act") == "approve", given.get("answer", "")
        )
    )
    return go("/operator")


async def _labs(service: Service, visit: Visit) -> Response:
    public = await service.transact(lambda tx: applications.labs(tx, visit.now_s))
    rows = await service.transact(operator.list_labs)
    return render(visit, "operator_labs.html", labs=public, rows={row.lab: row for row in rows})


async def _labs_act(service: Service, visit: Visit) -> Response:
    person, given = person_of(visit), visit.given
    need_fresh(service, visit)
    await service.transact(
        lambda tx: applications.suspend_lab(
            tx, visit.now_s, person, given.get("lab", ""), given.get("act") == "suspend"
        )
    )
    return go("/operator/labs")


async def _quota(service: Service, visit: Visit) -> Response:
    found = await service.transact(lambda tx: quotas.quotas(tx, visit.now_s))
    return render(visit, "operator_quota.html", quotas=found)


async def _quota_act(service: Service, visit: Visit) -> Response:
    person, given = person_of(visit), visit.given
    need_fresh(service, visit)
    weight, most = quotas.parse(given.get("weight", ""), given.get("max_cards", ""))
    await service.transact(
        lambda tx: quotas.change(tx, visit.now_s, person, given.get("lab", ""), weight, most)
    )
    return go("/operator/quota")


async def _machines(service: Service, visit: Visit) -> Response:
    rows = await service.transact(operator.list_accounts)
    return render(
        visit, "operator_machines.html", accounts=rows,
        is_done=visit.request.query_params.get("done") == "1",
        is_ended=visit.request.query_params.get("ended") == "1",
    )  # fmt: skip


async def _machines_act(service: Service, visit: Visit) -> Response:
    person, given = person_of(visit), visit.given
    need_fresh(service, visit)
    if given.get("act") == "sessions":
        name = given.get("name", "")
        await service.transact(
            lambda tx: operator.end_sessions(tx, visit.now_s, name, actor=person.account)
        )
        return go("/operator/machines?ended=1")
    device = given.get("device", "").strip()
    await service.transact(
        lambda tx: operator.revoke_device(tx, visit.now_s, DeviceId(device), actor=person.account)
    )
    return go("/operator/machines?done=1")


async def _reports(service: Service, visit: Visit) -> Response:
    return render(visit, "reports.html", reports=await service.transact(abuse.open_reports))


async def _reports_act(service: Service, visit: Visit) -> Response:
    person, number = person_of(visit), visit.given.get("report", "")
    await service.transact(lambda tx: abuse.close(tx, visit.now_s, person, number))
    return go("/operator/reports")


async def _record(service: Service, visit: Visit) -> Response:
    lines = await service.transact(lambda tx: audit.latest(tx, RECORD_LINES))
    broken = await service.transact(audit.verify_chain)
    return render(visit, "record.html", lines=lines, broken=broken)


PAGES: Final = (
    Page("/operator", _applications, None, "operator"),
    Page("/operator/applications/{application}", _application, _application_act, "operator"),
    Page("/operator/labs", _labs, _labs_act, "operator"),
    Page("/operator/quota", _quota, _quota_act, "operator"),
    Page("/operator/machines", _machines, _machines_act, "operator"),
    Page("/operator/reports", _reports, _reports_act, "operator"),
    Page("/operator/record", _record, None, "operator"),
)
