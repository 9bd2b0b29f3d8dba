"""Leases of the lab's own machines beyond the node: those of its Ray cluster.

Owns: what such a machine may take, and that its leases end with the node's life instead of with a
clock. Its device is `ray:MACHINE`; it has no grant, so it earns no credit and casts no vote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from server_stub.node.state import lanes, leases, tasks
from server_stub.node.state.dispatch import LocalLease, turn_cost
from server_stub.node.state.words import RAY_DEVICES, JobChanged, Party, Step

__all__ = ["Offer", "device_of", "lease", "party", "wait"]

TURNS: Final = "ray"
"""The executor whose turns its machines give, whatever tasks they take."""

TROUBLES: Final = (
    "ray_missing", "ray_no_worker", "ray_unreachable", "ray_worker_differs", "ray_worker_failed",
)  # fmt: skip
"""What a job for Ray can wait for."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a machine has.

    Args:
        takes: whose tasks it computes (`executor` of a job).
        dtypes: what its engine has (`Dtypes.mask`).
    """

    device: str
    takes: tuple[str, ...]
    memory_bytes: int
    slot_bytes: int
    dtypes: int


def device_of(machine: str) -> str:
    """The device of a machine's leases."""
    return RAY_DEVICES + machine


def party(device: str) -> Party:
    """A machine as the rules see it."""
    return Party(device, "lab", "lab", 0, "", 0, 0.0, 0)


_FITS: Final = (
    "select t.turn, t.id from task t where t.state = 'ready'"  # noqa: S608 - constants
    " and t.executor = ? and t.lane = ?"
    " and t.memory_bound_bytes <= ? and t.slot_bytes <= ?"
    " and t.dtypes & ~? = 0 and (t.attempt = 0 or not exists (select 1 from lease l"
    " where l.task = t.id and l.device = ? and l.cause in ("
    + ", ".join(f"'{cause}'" for cause in leases.UNFIT)
    + "))) order by t.turn, t.id limit 1"
)


def lease(step: Step, offer: Offer, want: int) -> list[LocalLease]:
    """Ready tasks that fit the machine and did not fail there: users in turn, a user's by priority,
    then the older job, then the plan's order."""
    also = tuple(name for name in offer.takes if name != TURNS)
    turns = lanes.turns(step, TURNS, also)
    issued: list[LocalLease] = []
    while len(issued) < want:
        task = lanes.in_turn(turns, lambda lane: _take(step, offer, lane), turn_cost)
        if task is None:
            break
        wished = [(task, step.rules.lease_cap_s, party(offer.device))]
        ((name, _),) = leases.issue(step, wished, "first")
        issued.append(LocalLease(name, task.id, task.number, task.job))
    lanes.close(step, TURNS, turns)
    return issued


def _take(step: Step, offer: Offer, lane: int) -> tasks.TaskRow | None:
    """Takes the first task of a user; one look into the index for each executor."""
    able = (offer.memory_bytes, offer.slot_bytes, offer.dtypes, offer.device)
    found = [row for name in offer.takes for row in step.tx.rows(_FITS, (name, lane, *able))]
    if not found:
        return None
    _, task = min(found)
    return tasks.load(step.tx, task) if tasks.move(step, task, ("ready",), "leased") else None


def wait(step: Step, code: str, text: str) -> None:
    """Running jobs for Ray say why nothing goes on; with an empty code, that it does again."""
    marks = ", ".join(f"'{trouble}'" for trouble in TROUBLES)
    rows = step.tx.rows(
        "update job set error_code = ?, error_text = ? where state = 'running' and"  # noqa: S608
        f" executor = 'ray' and error_code != ? and error_code in ('', {marks}) returning id",
        (code, text[:4096], code),
    )
    for (job,) in rows:
        step.emit(JobChanged(job))
