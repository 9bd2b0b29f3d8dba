"""The two dialogues that hand out work: a device's exchange, and the lab's own engine.

Owns: the order inside an exchange (commits, then abandons, then leases) and what a lease carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

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
from server_stub.node.state import bulk, commits, lanes, leases, tasks, trust, votes
from server_stub.node.state.fairness import Turns, cost_of
from server_stub.node.state.words import LOCAL_DEVICE, Party, Step
from server_stub.node.store.protocol import Row

__all__ = ["Asked", "LocalLease", "exchange", "lease_local", "signed_exchanges", "turn_cost"]

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


class Asked(NamedTuple):
    """A device's request. `nonce` is the (key, nonce, until) of its signature, if it has one."""

    party: Party
    message: Exchange
    nonce: tuple[bytes, bytes, float] | None = None


def exchange(step: Step, party: Party, message: Exchange) -> ExchangeReply:
    """A device's request: results first, then what it gives back, then what it gets."""
    return _together(step, [Asked(party, message)])[0]


def signed_exchanges(step: Step, asked: Sequence[Asked]) -> list[ExchangeReply | None]:
    """The same for requests of several devices in one transaction; None: it was here before.

    All results come first, then what is given back, then what is given out: an order in which the
    devices might as well have asked. A device that asks twice is answered twice.
    """
    seen = trust.seen_nonces(step, [each.nonce for each in asked])
    replies: list[ExchangeReply | None] = [None] * len(asked)
    left = [place for place, was_here in enumerate(seen) if not was_here]
    while left:
        known: set[str] = set()
        now: list[int] = []
        later: list[int] = []
        for place in left:
            party = asked[place].party
            is_apart = party.device not in known and party.grant not in known
            (now if is_apart else later).append(place)
            known |= {party.device, party.grant}
        for place, reply in zip(now, _together(step, [asked[each] for each in now]), strict=True):
            replies[place] = reply
        left = later
    return replies


def _together(step: Step, asked: Sequence[Asked]) -> list[ExchangeReply]:
    admitted = trust.admit(step, [(each.party, each.message.capabilities) for each in asked])
    results = [(each.party, result) for each in asked for result in each.message.commits]
    codes = iter(commits.commit(step, results))
    answers: list[tuple[list[LeaseId], list[Refusal]]] = []
    wishes: list[_Wish] = []
    for (party, message, _), (device, standing) in zip(asked, admitted, strict=True):
        uploads: list[LeaseId] = []
        refused: list[Refusal] = []
        for result in message.commits:
            code = next(codes)
            if code:
                refused.append(Refusal(result.lease, code))
            else:
                uploads.append(result.lease)
        for abandon in message.abandons:
            code = leases.abandon(step, party, abandon.lease, abandon.reason)
            if code:
                refused.append(Refusal(abandon.lease, code))
        answers.append((uploads, refused))
        live = standing.live
        named = _named(message)
        if standing.issued > len(named):
            live -= leases.expire_unheard(step, party, named)
        room = min(message.want, party.max_leases - live)
        wishes.append(_Wish(party, device, room, standing.is_called))
    return [
        ExchangeReply(
            leases=tuple(given),
            uploads=tuple(uploads),
            cancelled=_no_longer_wanted(step, party, message.holding),
            refused=tuple(refused),
            wait_s=_wait_s(step, message.want - len(given)),
        )
        for (party, message, _), (uploads, refused), given in zip(
            asked, answers, _issue(step, wishes), strict=True
        )
    ]


def _named(message: Exchange) -> frozenset[str]:
    """Every lease that a device has, by its own words."""
    commits = [result.lease for result in message.commits]
    abandons = [abandon.lease for abandon in message.abandons]
    return frozenset([*message.holding, *commits, *abandons])


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


class _Wish(NamedTuple):
    """A device that may have so many leases, and whether a second opinion is asked of it."""

    party: Party
    device: trust.DeviceRow
    room: int
    is_called: bool


def _may_have_work(step: Step, device: trust.DeviceRow) -> bool:
    if device.quarantined_until_s > step.now_s or device.memory_bytes == 0:
        return False
    return device.catalog_hash == step.rules.catalog_hash


def _issue(step: Step, wishes: Sequence[_Wish]) -> list[list[Lease]]:
    """The leases of each device."""
    voting: list[tuple[int, tasks.TaskRow]] = []
    rooms = [wish.room if _may_have_work(step, wish.device) else 0 for wish in wishes]
    calls: list[tuple[str, float]] = []
    for place, wish in enumerate(wishes):
        while wish.is_called and rooms[place] > 0:
            wanted = votes.called(step, wish.party.device)
            task = None if wanted is None else tasks.load(step.tx, wanted)
            if task is None:
                break
            voting.append((place, task))
            rooms[place] -= 1
            # It cannot wait for a turn: only this device may give it, and only now. It counts as
            # one. The next look at the calls finds it taken.
            lanes.charge(step, "grid", task.id, turn_cost(task))
            calls += leases.issue(step, [_dated(wish, task)], "vote")
    taken = _take(step, [wish.device for wish in wishes], rooms)
    places = [(place, task) for place, some in enumerate(taken) for task in some]
    issued = leases.issue(step, [_dated(wishes[place], task) for place, task in places], "first")
    _note_last(step, wishes, taken)
    given: list[list[Lease]] = [[] for _ in wishes]
    made = _leases(step, [task for _, task in voting + places], calls + issued)
    for (place, _), lease in zip(voting + places, made, strict=True):
        given[place].append(lease)
    return given


def _dated(wish: _Wish, task: tasks.TaskRow) -> tuple[tasks.TaskRow, float, Party]:
    return task, _estimate_s(wish.device, task), wish.party


def _note_last(
    step: Step, wishes: Sequence[_Wish], taken: Sequence[Sequence[tasks.TaskRow]]
) -> None:
    """Near what each device works from now on."""
    moved: dict[tuple[str, int], list[str]] = {}
    for wish, some in zip(wishes, taken, strict=True):
        if some:
            last = some[-1].job, some[-1].affinity
            if last != (wish.device.last_job, wish.device.last_affinity):
                moved.setdefault(last, []).append(wish.party.device)
    for last, devices in moved.items():
        marks, values = bulk.marks(devices)
        step.tx.change(
            f"update device set last_job = ?, last_affinity = ? where key in ({marks})",  # noqa: S608
            (*last, *values),
        )


def _take(
    step: Step, devices: Sequence[trust.DeviceRow], rooms: Sequence[int]
) -> list[list[tasks.TaskRow]]:
    """So many tasks at most for each device, users in turn."""
    taken: list[list[tasks.TaskRow]] = [[] for _ in devices]
    if not any(room > 0 for room in rooms):
        return taken
    turns = lanes.turns(step, "grid")
    alone = turns.alone()
    kinds: dict[object, list[int]] = {}
    for place, (device, room) in enumerate(zip(devices, rooms, strict=True)):
        if room > 0:
            kind = place if alone is None else leases.kind_of(device)
            kinds.setdefault(kind, []).append(place)
    for places in kinds.values():
        wanted = sum(rooms[place] for place in places)
        if alone is not None and wanted > 1:
            some = leases.take_some(step, devices[places[0]], alone, wanted)
            if some is not None:
                for place in places:
                    taken[place], some = some[: rooms[place]], some[rooms[place] :]
                continue
        for place in places:
            turns.again()
            taken[place] = _take_in_turn(step, turns, devices[place], rooms[place])
    lanes.close(step, "grid", turns)
    return taken


def _take_in_turn(
    step: Step, turns: Turns, device: trust.DeviceRow, most: int
) -> list[tasks.TaskRow]:
    taken: list[tasks.TaskRow] = []
    while len(taken) < most:
        task = lanes.in_turn(turns, lambda lane: leases.take(step, device, lane), turn_cost)
        if task is None:
            break
        taken.append(task)
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
    rows: list[Row] = []
    for begin in range(0, len(wanted), bulk.AT_ONCE):
        marks, values = bulk.marks(wanted[begin : begin + bulk.AT_ONCE])
        rows += step.tx.rows(
            f"select task, 0, slot, blob, nbytes from task_input where task in ({marks})"  # noqa: S608
            " union all select task, 1, slot, dtype, shape from task_output"
            f" where task in ({marks})",
            values + values,
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
        given = leases.issue(step, [(task, step.rules.lease_cap_s, _ENGINE)], "first")
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
