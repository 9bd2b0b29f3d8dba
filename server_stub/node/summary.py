"""How a job goes, in all its figures: computed here, shown by the client, commands and pages.

Owns: the queries and the arithmetic. What takes a look at every task of a job (contributors, the
plan in stretches) is kept for a while, in proportion to what it cost, so that watching a job of a
million tasks costs a few per cent of one reader. Must not: change a row.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.summary import Contributor, JobSummary, Stretch, TaskCounts
from server_stub.node.state import ended, jobs
from server_stub.node.store.protocol import Store, Tx

__all__ = ["Summaries"]

STRETCHES: Final = 240
CONTRIBUTORS: Final = 100
MAX_KEPT: Final = 64
LEAST_AGE_S: Final = 1.0
COST_SHARE: Final = 20.0
RECENT_EVENTS: Final = 1024
_OPEN: Final = ("waiting", "ready", "leased", "checking", "suspect")


@dataclass(frozen=True, slots=True)
class _Survey:
    """What a look at every task and lease of a job has found."""

    verified: int
    state: str
    until_s: float
    contributors: tuple[Contributor, ...]
    owners: int
    compute_s: float
    stretches: tuple[Stretch, ...]


class Summaries:
    """Summaries of the jobs of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, _Survey] = OrderedDict()

    async def of(self, job: str, now_s: float) -> JobSummary:
        """A job as it stands at `now_s`. Raises NodeError `unknown_job`."""
        kept = self._kept.get(job)
        summary, survey = await self._store.read(lambda tx: _summary(tx, job, now_s, kept))
        self._kept[job] = survey
        self._kept.move_to_end(job)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return summary


def _summary(tx: Tx, job: str, now_s: float, kept: _Survey | None) -> tuple[JobSummary, _Survey]:
    info = jobs.info(tx, job)
    if kept is None or _is_old(kept, info):
        kept = _survey(tx, info)
    cursor = tx.one("select cursor from job where id = ?", (job,))
    rate = _rate(tx, job, now_s) if info.state == "running" else 0.0
    began_s = info.created_s if info.started_s is None else info.started_s
    elapsed_s = max(0.0, (now_s if info.finished_s is None else info.finished_s) - began_s)
    left = info.tasks - info.verified
    share = 1.0 if info.state == "done" else info.verified / info.tasks if info.tasks else 0.0
    gain = info.plan.alone_s * share / elapsed_s if elapsed_s > 0 else 0.0
    summary = JobSummary(
        info=info, tasks=_counts(tx, info, cursor[0] if cursor else 0),
        contributors=kept.contributors, owners=kept.owners, stretches=kept.stretches,
        elapsed_s=elapsed_s, remaining_s=left / rate if rate > 0 else None,
        compute_s=kept.compute_s, rate_per_s=rate, gain=min(gain, 1e9),
        can_retry=ended.is_kept(tx, job), at_s=now_s,
    )  # fmt: skip
    return summary, kept


def _is_old(kept: _Survey, info: JobInfo) -> bool:
    if info.state == kept.state != "running" and info.verified == kept.verified:
        return False
    return info.state != kept.state or time.monotonic() >= kept.until_s


def _counts(tx: Tx, info: JobInfo, begun: int) -> TaskCounts:
    """From rows of what is open, of which there are few, and the job's own counts."""
    found: dict[str, int] = dict(tx.rows(
        "select state, count(*) from task where job = ? and state not in"
        " ('used', 'cancelled', 'failed') group by state",
        (info.job,),
    ))  # fmt: skip
    still = {name: found.get(name, 0) for name in _OPEN}
    verified = found.get("verified", 0)
    known = sum(still.values()) + verified + info.used
    # A run that was stopped early has no tasks beyond those that were used.
    return TaskCounts(
        planned=max(0, info.tasks - max(begun, known)), **still, verified=verified,
        used=info.used, ended=max(0, min(begun, info.tasks) - known),
    )  # fmt: skip


def _rate(tx: Tx, job: str, now_s: float) -> float:
    """Tasks verified in a second, over the last events."""
    rows = tx.rows(
        "select kind, at_s from event where job = ? order by number desc limit ?",
        (job, RECENT_EVENTS),
    )
    moments: list[float] = [at_s for kind, at_s in rows if kind == "verified"]
    if len(moments) < 2:
        return 0.0
    # Until now, not until the last one: a job that stands still is seen to.
    return len(moments) / max(now_s - moments[-1], 1e-3)


def _survey(tx: Tx, info: JobInfo) -> _Survey:
    began_s = time.monotonic()
    rows = tx.rows(
        "select l.owner, l.state, count(*), sum(l.compute_s) from task t join lease l"
        " on l.task = t.id where t.job = ? group by l.owner, l.state",
        (info.job,),
    )
    devices: dict[str, int] = dict(tx.rows(
        "select l.owner, count(distinct l.device) from task t join lease l on l.task = t.id"
        " where t.job = ? group by l.owner",
        (info.job,),
    ))  # fmt: skip
    found = sorted(
        (_contributor(owner, rows, count) for owner, count in devices.items()),
        key=lambda one: (-one.accepted, one.pseudonym),
    )
    stretches = _stretches(tx, info)
    took_s = time.monotonic() - began_s
    return _Survey(
        info.verified, info.state, began_s + max(LEAST_AGE_S, COST_SHARE * took_s),
        tuple(found[:CONTRIBUTORS]), len(found), sum(one.compute_s for one in found), stretches,
    )  # fmt: skip


def _contributor(owner: str, rows: list[tuple[str, str, int, float]], devices: int) -> Contributor:
    states = {state: (count, compute_s) for who, state, count, compute_s in rows if who == owner}

    def count(*names: str) -> int:
        return sum(states.get(name, (0, 0.0))[0] for name in names)

    return Contributor(
        pseudonym=owner, devices=devices, accepted=count("accepted"), refused=count("rejected"),
        lost=count("expired", "abandoned", "late"), open=count("issued", "committed", "uploaded"),
        compute_s=max(0.0, states.get("accepted", (0, 0.0))[1] or 0.0),
    )  # fmt: skip


def _stretches(tx: Tx, info: JobInfo) -> tuple[Stretch, ...]:
    """The plan's tasks in order, in at most 240 stretches."""
    tasks = info.tasks
    if not tasks:
        return ()
    parts = min(STRETCHES, tasks)
    rows = tx.rows(
        "select number * ? / ?, sum(state in ('verified', 'used')),"
        " sum(state in ('leased', 'checking', 'suspect')), sum(state in ('failed', 'cancelled'))"
        " from task where job = ? and number < ? group by 1",
        (parts, tasks, info.job, tasks),
    )
    known = {part: counts for part, *counts in rows}
    # Part p holds the numbers n with n * parts // tasks == p.
    edges = [-(-part * tasks // parts) for part in range(parts + 1)]
    return tuple(
        Stretch(edges[part + 1] - edges[part], *known.get(part, (0, 0, 0))) for part in range(parts)
    )
