"""The two dialogues that hand out work: a device's exchange, and the lab's own engine.

Owns: the order inside an exchange (commits, then abandons, then leases) and what a lease carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from gpugoblin.ids import LeaseId, TaskId
from gpugoblin.wire.messages.lease import Exchange, ExchangeReply, Lease, Refusal
from gpugoblin.wire.messages.task import (
    Constraints,
    OutputSpec,
    Task,
    TaskInput,
    VerifyChoice,
)
from server_stub.node.state import commits, lanes, leases, tasks, trust, votes
from server_stub.node.state.fairness import cost_of
from server_stub.node.state.words import LOCAL_DEVICE, Party, Step

__all__ = ["LocalLease", "exchange", "lease_local", "signed_exchange", "turn_cost"]

MAX_FACTS: Final = 1024
NO_TICKET = "-"
"""Stands where the service puts the blob ticket, which only it can sign."""


@dataclass(frozen=True, slots=True)
class LocalLease:
    """A task for the lab's own engine."""

    lease: str
    task: int
    number: int
    job: str


def exchange(step: Step, party: Party, message: Exchange) -> ExchangeReply:
    """A device's request: results first, then what it gives back, then what it gets."""
    device, standing = trust.admit(step, party, message.capabilities)
    live = standing.live
    uploads: list[LeaseId] = []
    refused: list[Refusal] = []
    codes = commits.commit(step, party, message.commits)
    for result, code in zip(message.commits, codes, strict=True):
        if code:
            refused.append(Refusal(result.lease, code))
        else:
            uploads.append(result.lease)
    for abandon in message.abandons:
        code = leases.abandon(step, party, abandon.lease, abandon.reason)
        if code:
            refused.append(Refusal(abandon.lease, code))
    named = _named(message)
    if standing.issued > len(named):
        live -= leases.expire_unheard(step, party, named)
    room = min(message.want, party.max_leases - live)
    issued = _issue(step, party, device, room, standing.is_called) if room > 0 else []
    return ExchangeReply(
        leases=tuple(issued),
        uploads=tuple(uploads),
        cancelled=_no_longer_wanted(step, party, message.holding),
        refused=tuple(refused),
        wait_s=_wait_s(step, message.want - len(issued)),
    )


def _named(message: Exchange) -> frozenset[str]:
    """Every lease that a device has, by its own words."""
    commits = [result.lease for result in message.commits]
    abandons = [abandon.lease for abandon in message.abandons]
    return frozenset([*message.holding, *commits, *abandons])


def signed_exchange(
    step: Step, party: Party, message: Exchange, nonce: tuple[bytes, bytes, float] | None
) -> ExchangeReply | None:
    """The same for a signed request with its (key, nonce, until); None when it was here before."""
    if nonce is not None and trust.saw_nonce(step, *nonce):
        return None
    return exchange(step, party, message)


def _wait_s(step: Step, missing: int) -> float:
    """When to ask again: soon while tasks are on their way, with jitter so that not all come."""
    if missing <= 0:
        return 0.0
    coming = step.tx.one(
        "select 1 from job where state = 'running' and executor = 'grid' and used < tasks limit 1"
    )
    return float(step.rng.uniform(0.3, 0.9) if coming else step.rng.uniform(3.0, 6.0))


def _no_longer_wanted(
    step: Step, party: Party, holding: tuple[LeaseId, ...]
) -> tuple[LeaseId, ...]:
    gone = []
    for lease_id in holding:
        lease = leases.load(step.tx, lease_id)
        if lease is None or lease.device != party.device or lease.state not in leases.LIVE:
            gone.append(lease_id)
    return tuple(gone)


def _issue(
    step: Step, party: Party, device: trust.DeviceRow, room: int, called: bool
) -> list[Lease]:
    if device.quarantined_until_s > step.now_s or device.memory_bytes == 0:
        return []
    if device.catalog_hash != step.rules.catalog_hash:
        return []
    called_for: list[tasks.TaskRow] = []
    issued: list[tuple[str, float]] = []
    while called and len(called_for) < room:
        wanted = votes.called(step, party.device)
        task = None if wanted is None else tasks.load(step.tx, wanted)
        if task is None:
            break
        called_for.append(task)
        # It cannot wait for a turn: only this device may give it, and only now. It counts as one.
        lanes.charge(step, "grid", task.id, turn_cost(task))
        issued += leases.issue(step, [(task, _estimate_s(device, task))], party, "vote")
    taken = _take(step, device, room - len(called_for))
    estimated = [(task, _estimate_s(device, task)) for task in taken]
    issued += leases.issue(step, estimated, party, "first")
    if taken:
        last = taken[-1].job, taken[-1].affinity
        if last != (device.last_job, device.last_affinity):
            step.tx.change(
                "update device set last_job = ?, last_affinity = ? where key = ?",
                (*last, party.device),
            )
    return _leases(step, called_for + taken, issued)


def _take(step: Step, device: trust.DeviceRow, most: int) -> list[tasks.TaskRow]:
    taken: list[tasks.TaskRow] = []
    if most <= 0:
        return taken
    turns = lanes.turns(step, "grid")
    while len(taken) < most:
        task = lanes.in_turn(turns, lambda lane: leases.take(step, device, lane), turn_cost)
        if task is None:
            break
        taken.append(task)
    lanes.close(step, "grid", turns)
    return taken


def _estimate_s(device: trust.DeviceRow, task: tasks.TaskRow) -> float:
    return trust.estimate_s(device, task.flops, task.bytes_moved)


def _leases(step: Step, taken: list[tasks.TaskRow], issued: list[tuple[str, float]]) -> list[Lease]:
    tensors = _tensors(step, [task.id for task in taken])
    return [
        _lease(step, task, lease, until_s, *tensors[task.id])
        for task, (lease, until_s) in zip(taken, issued, strict=True)
    ]


def _lease(
    step: Step, task: tasks.TaskRow, lease: str, until_s: float,
    inputs: list[TaskInput], outputs: list[OutputSpec],
) -> Lease:  # fmt: skip
    graph, operators, numeric_class, assurance, demands = _facts(step, task)
    sent = step.sent_bytes.get(task.job, 0)
    step.sent_bytes[task.job] = sent + sum(source.nbytes for source in inputs)
    return Lease(
        lease=LeaseId(lease),
        until_s=until_s,
        blob_ticket=NO_TICKET,
        task=Task(
            task=TaskId(task.public), graph=graph, inputs=tuple(inputs),
            outputs=tuple(outputs), numeric_class=numeric_class, assurance=assurance,
            verify=(VerifyChoice(_method(task.verify), task.verify_flops),),
            memory_bound_bytes=task.memory_bound_bytes, flops=task.flops,
            bytes_moved=task.bytes_moved, weight_version=task.weight_version, seed_key=b"",
            catalog_hash=step.rules.catalog_hash,
            operator_versions=operators,
            constraints=demands, priority=-task.prio,
            affinity_key=task.affinity, deadline_class="normal",
        ),
    )  # fmt: skip


def _facts(step: Step, task: tasks.TaskRow) -> tuple[Any, ...]:
    """What never changes about a task's graph and job, read once a life of the node."""
    key = (task.job, task.graph)
    known = step.facts.get(key)
    if known is None:
        row = step.tx.one(
            "select g.data, g.operators, j.numeric_class, j.assurance, j.constraints"
            " from job j, graph g where j.id = ? and g.hash = ?",
            key,
        )
        assert row is not None  # noqa: S101 - a task has its job and its graph
        operators, demands = row[1], row[4]
        known = (
            row[0], msgspec.json.decode(operators), row[2], row[3],
            msgspec.json.decode(demands, type=Constraints),
        )  # fmt: skip
        if len(step.facts) >= MAX_FACTS:
            step.facts.clear()
        step.facts[key] = known
    return known


def _method(verify: str) -> Any:
    return verify


@lru_cache(maxsize=4096)
def _shape(text: str) -> tuple[int, ...]:
    return msgspec.json.decode(text, type=tuple[int, ...])


def _tensors(step: Step, wanted: list[int]) -> dict[int, tuple[list[TaskInput], list[OutputSpec]]]:
    """Inputs and outputs of each task by slot, in one look."""
    found: dict[int, tuple[list[TaskInput], list[OutputSpec]]] = {task: ([], []) for task in wanted}
    if not wanted:
        return found
    marks = ", ".join("?" * len(wanted))
    rows = step.tx.rows(
        f"select task, 0, slot, blob, nbytes from task_input where task in ({marks})"  # noqa: S608
        f" union all select task, 1, slot, dtype, shape from task_output where task in ({marks})",
        wanted + wanted,
    )
    rows.sort()  # they come nearly in this order; a sort by the database costs more than looking
    for task, is_output, slot, what, size in rows:
        inputs, outputs = found[task]
        if is_output:
            outputs.append(OutputSpec(slot, what, _shape(size)))
        else:
            inputs.append(TaskInput(slot, what, size))
    return found


_ENGINE = Party(LOCAL_DEVICE, "lab", "lab", 0, "", 0, 0.0, 0)


def lease_local(step: Step, want: int, dtypes: int) -> list[LocalLease]:
    """The next ready tasks for the lab's own engine: users in turn, a user's in the plan's order.

    Args:
        dtypes: what the engine has (`Dtypes.mask`).
    """
    turns = lanes.turns(step, "local")
    issued: list[LocalLease] = []
    while len(issued) < want:
        task = lanes.in_turn(turns, lambda lane: _first(step, "local", lane, dtypes), turn_cost)
        if task is None:
            break
        given = leases.issue(step, [(task, step.rules.lease_cap_s)], _ENGINE, "first")
        issued.append(LocalLease(given[0][0], task.id, task.number, task.job))
    lanes.close(step, "local", turns)
    return issued


def _first(step: Step, executor: str, lane: int, dtypes: int) -> tasks.TaskRow | None:
    """Takes the first ready task of a user for an engine that has these dtypes."""
    row = step.tx.one(
        "select id from task where state = 'ready' and executor = ? and lane = ?"
        " and dtypes & ~? = 0 order by turn, id limit 1",
        (executor, lane, dtypes),
    )
    if row is None or not tasks.move(step, row[0], ("ready",), "leased"):
        return None
    return tasks.load(step.tx, row[0])


def turn_cost(task: tasks.TaskRow) -> int:
    """What a task costs its user's lane."""
    return cost_of(task.flops, task.bytes_moved)
