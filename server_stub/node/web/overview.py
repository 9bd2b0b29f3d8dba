"""The page of the node: who computes, what waits, what is behind, the disk, and each user's share.

Owns: the facts of this page. What a user's share is, is told to administrators by name; others see
their own and the sum. Must not: change anything.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from server_stub.node.node import Node
from server_stub.node.store.protocol import Tx
from server_stub.node.web.visit import Page, Visit, render, sees_all
from server_stub.web.charts import bars

__all__ = ["PAGES", "Share", "shares"]

_STATES: Final = ("waiting", "ready", "leased", "checking", "suspect")


@dataclass(frozen=True, slots=True)
class Share:
    """What one user has here: jobs, those that run, tasks under way, tasks verified, credits."""

    name: str
    jobs: int
    running: int
    leased: int
    verified: int
    credits: float


def shares(tx: Tx) -> list[Share]:
    """Every user's share, the busiest first."""
    under_way: dict[str, int] = dict(tx.rows(
        "select j.owner, count(*) from lease l join job j on j.id = l.job"
        " where l.state in ('issued', 'committed') group by j.owner"
    ))  # fmt: skip
    rows = tx.rows(
        "select owner, count(*), sum(state = 'running'), sum(verified), sum(credits) from job"
        " group by owner"
    )
    found = [
        Share(owner, count, running, under_way.get(owner, 0), verified, credits)
        for owner, count, running, verified, credits in rows
    ]
    return sorted(found, key=lambda one: (-one.leased, -one.verified, one.name))


def queue(tx: Tx) -> list[tuple[str, int]]:
    """Open tasks of all jobs by state."""
    found: dict[str, int] = dict(tx.rows(
        "select t.state, count(*) from job j join task t on t.job = j.id where j.state = 'running'"
        " and t.state not in ('used', 'cancelled', 'failed') group by t.state"
    ))  # fmt: skip
    return [(state, found.get(state, 0)) for state in _STATES]


def _shown(found: Sequence[Share], visit: Visit) -> list[Share]:
    """By name for an administrator; else one's own, and all others together."""
    user = visit.who()
    if sees_all(user):
        return list(found)
    own = [one for one in found if one.name == user.name]
    rest = [one for one in found if one.name != user.name]
    if rest:
        own.append(Share(
            "all others", sum(one.jobs for one in rest), sum(one.running for one in rest),
            sum(one.leased for one in rest), sum(one.verified for one in rest),
            sum(one.credits for one in rest),
        ))  # fmt: skip
    return own


async def _node(node: Node, visit: Visit) -> Response:
    found, waiting = await node.store.read(lambda tx: (shares(tx), queue(tx)))
    fleets = [(name, await one.capabilities()) for name, one in sorted(node.executors.items())]
    disk = await asyncio.to_thread(shutil.disk_usage, node.settings.state)
    shown = _shown(found, visit)
    chart = bars("verified tasks", [(one.name, float(one.verified)) for one in shown], "tasks")
    return render(
        visit, "node.html", fleets=fleets, queue=waiting, disk=disk, shares=shown, chart=chart,
        items=node.work.busy, behind_s=node.work.validator_wait_s(), trouble=node.trouble,
        lab=node.settings.lab, reserve=node.settings.reserve_bytes, busy=True,
    )  # fmt: skip


PAGES: Final = (Page("/node", _node),)
