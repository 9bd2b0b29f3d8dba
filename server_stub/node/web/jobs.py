"""The pages of jobs: the list, one job, its certificate; cancel and retry.

Owns: the facts of these pages. Who may see and change which job is a rule of `state.sharing`.
Every figure of a job is of `summary.Summaries`. Must not: compute one.
"""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from gpugoblin.shown.plan import PlanView
from gpugoblin.shown.summary import SummaryView
from server_stub.node import resuming
from server_stub.node.certificate import certify
from server_stub.node.node import Node
from server_stub.node.state import jobs as state
from server_stub.node.state import sharing
from server_stub.node.web import curves, pictures
from server_stub.node.web.visit import Page, Visit, render, sees_all
from server_stub.web.pages import go

__all__ = ["PAGES"]

LISTED: Final = 100
EVENTS: Final = 12


async def _find(node: Node, visit: Visit, *, to_change: bool = False) -> str:
    """The id of the job in the path. Raises NodeError as `sharing`: `unknown_job` where there is
    none that is shown to this user."""
    user, job = visit.who(), visit.parameter("job")
    find = sharing.changeable if to_change else sharing.readable
    return await node.store.read(lambda tx: find(tx, user, job))


async def _list(node: Node, visit: Visit) -> Response:
    user = visit.who()
    found = await node.store.read(lambda tx: sharing.visible(tx, user, LISTED + 1))
    busy = any(info.state == "running" for info in found[:LISTED])
    return render(
        visit, "jobs.html", jobs=found[:LISTED], are_more=len(found) > LISTED, busy=busy,
    )  # fmt: skip


async def _job(node: Node, visit: Visit) -> Response:
    user, job = visit.who(), await _find(node, visit)
    summary = await node.summaries.of(job, visit.now_s)
    plan = PlanView.of(summary.info.plan)
    losses = await curves.of(node, job)
    recent = await node.store.read(lambda tx: tx.rows(
        "select number, at_s, kind, task_index, detail from event where job = ?"
        " order by number desc limit ?",
        (job, EVENTS),
    ))  # fmt: skip
    return render(
        visit, "job.html", summary=summary, view=SummaryView(summary), info=summary.info, plan=plan,
        picture=plan.svg(), strip=pictures.strip(summary), losses=losses, events=recent,
        may_act="submit" in user.scopes and (sees_all(user) or user.name == summary.info.owner),
        busy=summary.info.state == "running",
        trouble=node.trouble,
    )  # fmt: skip


async def _cancel_act(node: Node, visit: Visit) -> Response:
    visit.who().require("submit")
    job = await _find(node, visit, to_change=True)
    await node.handle(lambda step: state.cancel(step, job))
    return go(f"/jobs/{job}")


async def _retry_act(node: Node, visit: Visit) -> Response:
    visit.who().require("submit")
    job = await _find(node, visit, to_change=True)
    await resuming.retry(node, job)
    return go(f"/jobs/{job}")


async def _certificate(node: Node, visit: Visit) -> Response:
    job = await _find(node, visit)
    made = msgspec.json.format(msgspec.json.encode(await certify(node, job)), indent=2)
    name = f'attachment; filename="{job}.certificate.json"'
    return Response(made, media_type="application/json", headers={"Content-Disposition": name})


PAGES: Final = (
    Page("/jobs", _list),
    Page("/jobs/{job}", _job),
    Page("/jobs/{job}/cancel", _job, _cancel_act),
    Page("/jobs/{job}/retry", _job, _retry_act),
    Page("/jobs/{job}/certificate", _certificate),
)
