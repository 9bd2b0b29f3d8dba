"""Leases: issued, given back, expired. A lease bounds waste; it proves nothing.

Owns: tables `lease` and `vote`. `issued -> committed -> uploaded -> accepted | rejected`, or
`expired`, `abandoned`, `late`, `cancelled`. The lease id is the fencing token of its result. Role
`first` moves the task along; role `vote` is a second opinion on a task that is in `checking`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from server_stub.node.state import blobs, bulk, events, receipts, tasks, trust
from server_stub.node.state.words import DropUploads, Party, RunWork, Step, Wake
from server_stub.node.store.protocol import Row, Tx, Value

__all__ = [
    "UNFIT",
    "LeaseRow",
    "abandon",
    "add_first_votes",
    "add_votes",
    "again",
    "arriving",
    "close",
    "credit_late",
    "drop_votes",
    "expire",
    "expire_unheard",
    "hurry",
    "in_states",
    "issue",
    "kind_of",
    "load",
    "take",
    "take_some",
    "votes",
]

LIVE: Final = ("issued", "committed")
UNFIT: Final = ("does_not_fit", "engine_failed", "inputs_missing")
"""Causes after which the same device is not asked again for the same task."""


class LeaseRow(NamedTuple):
    """A row of `lease`; the columns that the rules read."""

    id: str
    task: int
    job: str
    role: str
    device: str
    owner: str
    state: str
    until_s: float


_COLUMNS = "id, task, job, role, device, owner, state, until_s"


def load(tx: Tx, lease: str) -> LeaseRow | None:
    row = tx.one(f"select {_COLUMNS} from lease where id = ?", (lease,))  # noqa: S608 - constant
    return None if row is None else LeaseRow(*row)


def _fitting(place: str, order: str) -> str:
    """The first ready task at a place that a device may have."""
    return (
        "select t.id from task t where t.state = 'ready'"  # noqa: S608 - constants
        f" and {place} and t.memory_bound_bytes <= ?"
        " and t.min_memory_bytes <= ? and t.slot_bytes <= ? and t.min_sandbox <= ?"
        " and t.dtypes & ~? = 0"
        " and (t.attempt = 0 or not exists (select 1 from lease l where l.task = t.id and"
        " ((l.owner = ? and l.state not in ('expired', 'abandoned', 'cancelled'))"
        " or (l.device = ? and l.cause in ('does_not_fit', 'engine_failed', 'inputs_missing')))))"
        f" and (? = 0 or t.verify = 'product') order by {order} limit 1"
    )


# A job's tasks are of one priority. Each half is written so that it has its own index.
_NEAR_PLACE: Final = (
    "t.job = ? and t.affinity = ? and t.job = (select b.job from task b"
    " where b.state = 'ready' and b.executor = 'grid' and b.lane = ?"
    " order by b.turn, b.id limit 1)"
)
_FIRST_PLACE: Final = "t.executor = 'grid' and t.lane = ?"
_NEAR: Final = _fitting(_NEAR_PLACE, "t.id")
_FIRST: Final = _fitting(_FIRST_PLACE, "t.turn, t.id")
_TAKE: Final = (
    f"update task set state = 'leased', since_s = ? where id = coalesce(({_NEAR}), ({_FIRST}))"  # noqa: S608
    f" and state = 'ready' returning {tasks.COLUMNS}"
)


def take(step: Step, device: trust.DeviceRow, lane: int) -> tasks.TaskRow | None:
    """Moves the best ready grid task of a user for a device to `leased`; returns it as it is then.

    By priority, then the older job, then in the plan's order; within the best job, near what the
    device has.
    """
    may_have = (device.memory_bytes, device.memory_bytes, device.max_slot_bytes, device.sandbox,
                device.dtypes, device.owner, device.key, int(step.validator_behind))  # fmt: skip
    row = step.tx.one(
        _TAKE,
        (step.now_s, device.last_job, device.last_affinity, lane, *may_have, lane, *may_have),
    )
    return None if row is None else tasks.TaskRow(*row)


_READY: Final = (
    f"select {tasks.COLUMNS} from task t where t.state = 'ready'"  # noqa: S608 - constants
    " and {place} and t.memory_bound_bytes <= ?"
    " and t.min_memory_bytes <= ? and t.slot_bytes <= ? and t.min_sandbox <= ?"
    " and t.dtypes & ~? = 0 and (? = 0 or t.verify = 'product') order by {order} limit ?"
)
# For a place in a job; the job is the best one of the lane.
_SOME_NEAR: Final = _READY.format(place=_NEAR_PLACE, order="t.id")
_SOME_FIRST: Final = _READY.format(place=_FIRST_PLACE, order="t.turn, t.id")
_TAKE_SOME: Final = (
    "update task set state = 'leased', since_s = ? where id in ({marks}) and state = 'ready'"
)


_ATTEMPT: Final = tasks.TaskRow._fields.index("attempt")


def kind_of(device: trust.DeviceRow) -> tuple[Value, ...]:
    """What decides which tasks that were never tried a device may have, and from where."""
    return (device.last_job, device.last_affinity, device.memory_bytes, device.max_slot_bytes,
            device.sandbox, device.dtypes)  # fmt: skip


def take_some(
    step: Step, device: trust.DeviceRow, lane: int, most: int
) -> list[tasks.TaskRow] | None:
    """What `take` would give one after the other to devices of one kind (`kind_of`), at once.

    Only in a job that comes after the best one, what is near has no preference.

    None, and nothing is taken, where a task among them was tried before: who may have such a one
    is decided device by device.
    """
    may_have = (device.memory_bytes, device.memory_bytes, device.max_slot_bytes, device.sandbox,
                device.dtypes, int(step.validator_behind))  # fmt: skip
    near = (device.last_job, device.last_affinity, lane, *may_have, most)
    found: dict[int, Row] = {}
    if device.last_job:
        found.update((row[0], row) for row in step.tx.rows(_SOME_NEAR, near))
    if len(found) < most:
        # Those near may be among the first, too.
        for row in step.tx.rows(_SOME_FIRST, (lane, *may_have, most + len(found))):
            if len(found) < most:
                found.setdefault(row[0], row)
    if any(row[_ATTEMPT] for row in found.values()):
        return None
    # They were read in this transaction, so what the change makes of them is known.
    wanted = list(found)
    for begin in range(0, len(wanted), bulk.AT_ONCE):
        some = wanted[begin : begin + bulk.AT_ONCE]
        marks, values = bulk.marks(some)
        moved = step.tx.change(_TAKE_SOME.format(marks=marks), (step.now_s, *values))
        if moved != len(some):
            raise RuntimeError(f"{moved} of {len(some)} ready tasks were taken")
    return [tasks.taken(row, step.now_s) for row in found.values()]


_ISSUE: Final = (
    "insert into lease(id, task, job, role, device, owner, bucket, grant_id, state, issued_s,"
    " until_s) values"
)


def issue(
    step: Step, taken: Sequence[tuple[tasks.TaskRow, float, Party]], role: str
) -> list[tuple[str, float]]:
    """Gives tasks that were taken, each with how long it should last, to parties.

    Returns:
        for each the lease and until when it holds.
    """
    rules = step.rules
    issued = []
    rows: list[Sequence[Value]] = []
    for task, estimate_s, party in taken:
        wished_s = max(rules.lease_floor_s, rules.lease_factor * estimate_s)
        until_s = step.now_s + min(rules.lease_cap_s, wished_s)
        lease = step.near_id("lease")
        issued.append((lease, until_s))
        rows.append((lease, task.id, task.job, role, party.device, party.owner, party.bucket,
                     party.grant, step.now_s, until_s))  # fmt: skip
        events.note(step, task.job, "leased", task.number)
    bulk.insert(step.tx, _ISSUE, "(?, ?, ?, ?, ?, ?, ?, ?, 'issued', ?, ?)", rows)
    return issued


def credit_late(step: Step, task: tasks.TaskRow) -> None:
    """Late results that are bit for bit what was verified are credited; they change nothing."""
    final = [row[0] for row in step.tx.rows(
        "select blob from fold where task = ? order by slot", (task.id,)
    )]  # fmt: skip
    for (lease,) in step.tx.rows(
        "select id from lease where task = ? and state = 'late'", (task.id,)
    ):
        if [blob for blob, _ in votes(step.tx, lease)] == final:
            receipts.credit(step, lease, task.job, task.flops, task.bytes_moved)


def add_votes(step: Step, lease: str, named: Sequence[tuple[str, int]], *, held: bool) -> None:
    """Notes the hashes of a result; `held` takes a reference before the bytes are on their way."""
    for slot, (blob, nbytes) in enumerate(named):
        added = step.tx.change(
            "insert into vote values(?, ?, ?, ?, ?) on conflict do nothing",
            (lease, slot, blob, nbytes, int(held)),
        )
        if held and added:
            blobs.hold(step, blob, nbytes)


def add_first_votes(step: Step, results: Sequence[tuple[str, Sequence[tuple[str, int]]]]) -> None:
    """The same with references for several leases, none of which has a vote so far."""
    rows = [(lease, slot, blob, nbytes, 1) for lease, named in results
            for slot, (blob, nbytes) in enumerate(named)]  # fmt: skip
    bulk.insert(step.tx, "insert into vote values", "(?, ?, ?, ?, ?)", rows)
    blobs.hold_all(step, [each for _, named in results for each in named])


def votes(tx: Tx, lease: str) -> list[tuple[str, int]]:
    """(blob, bytes) of each output of a result, by slot."""
    rows = tx.rows("select blob, nbytes from vote where lease = ? order by slot", (lease,))
    return [(blob, nbytes) for blob, nbytes in rows]


def drop_votes(step: Step, lease: str) -> None:
    """The bytes of a result are not needed any more (the hashes stay)."""
    for (blob,) in step.tx.rows("select blob from vote where lease = ? and held = 1", (lease,)):
        blobs.release(step, blob)
    step.tx.change("update vote set held = 0 where lease = ?", (lease,))


def close(step: Step, lease: LeaseRow, state: str, cause: str = "") -> None:
    """Ends a lease that is live, and lets go of its bytes."""
    step.tx.change("update lease set state = ?, cause = ? where id = ?", (state, cause, lease.id))
    if lease.state == "committed":
        step.emit(DropUploads(lease.id, len(votes(step.tx, lease.id))))
    drop_votes(step, lease.id)


def again(step: Step, task: tasks.TaskRow, lease: LeaseRow) -> None:
    """A lease came to nothing: the task is ready again, or the validator's after many attempts."""
    if lease.role == "vote":
        step.tx.change(
            "update vote_call set device = '', until_s = ? where task = ?", (step.now_s, task.id)
        )
        return
    moved = step.tx.one(
        "update task set state = 'ready', attempt = attempt + 1, since_s = ? where id = ?"
        " and state = 'leased' returning attempt",
        (step.now_s, task.id),
    )
    if moved is None:
        return
    if task.executor != "local" and moved[0] >= step.rules.attempts:
        tasks.move(step, task.id, ("ready",), "suspect")
        if tasks.inputs_verified(step.tx, task.id):
            step.emit(RunWork("recompute", task.id))
    else:
        step.emit(Wake(task.executor))


def abandon(step: Step, party: Party, lease_id: str, reason: str) -> str:
    """A lease is given back, free of blame. Returns "" or why nothing changed."""
    lease = load(step.tx, lease_id)
    if lease is None or lease.device != party.device:
        return "unknown_lease"
    task = tasks.load(step.tx, lease.task)
    if lease.state not in LIVE or task is None:
        return "" if lease.state in ("abandoned", "expired", "cancelled") else "already_committed"
    close(step, lease, "abandoned", reason)
    step.tx.change("update job set lost_abandoned = lost_abandoned + 1 where id = ?", (lease.job,))
    events.note(step, lease.job, "abandoned", task.number, reason)
    again(step, task, lease)
    return ""


def expire_unheard(step: Step, party: Party, named: Collection[str]) -> int:
    """Ends leases that never reached their device: it names all that it has in each request.

    Without this, an answer that is lost (a node that is started again, a cut connection) would
    keep its tasks from everybody until the leases run out. Young leases are left alone: their
    answer may be on its way. A device that has one all the same may still commit it, as with
    every lease that is over.

    Args:
        named: every lease that the device holds, commits or gives back.

    Returns:
        how many were ended.
    """
    rows = step.tx.rows(
        f"select {_COLUMNS} from lease where grant_id = ? and device = ?"  # noqa: S608 - constant
        # Both words: the index `lease_of_grant` is found by the first.
        " and state in ('issued', 'committed') and state = 'issued' and issued_s < ?"
        " order by issued_s, id",
        (party.grant, party.device, step.now_s - step.rules.unheard_s),
    )
    unheard = [lease for row in rows if (lease := LeaseRow(*row)).id not in named]
    for lease in unheard:
        _expire_one(step, lease, "unheard")
    return len(unheard)


def expire(step: Step) -> int:
    """Ends every lease whose time is over; returns how many."""
    over = step.tx.rows(
        f"select {_COLUMNS} from lease where state in ('issued', 'committed')"  # noqa: S608
        " and until_s < ? and grant_id != '' order by until_s limit 1000",
        (step.now_s,),
    )
    for row in over:
        _expire_one(step, LeaseRow(*row))
    return len(over)


def hurry(step: Step, task: int, before_s: float) -> None:
    """Ends the leases of a task that are older than that and of which nothing has come.

    Others may take it then; its device may still commit, as with every lease that is over.
    """
    rows = step.tx.rows(
        f"select {_COLUMNS} from lease where task = ? and role = 'first' and grant_id != ''"  # noqa: S608
        " and state in ('issued', 'committed') and coalesce(committed_s, issued_s) < ?",
        (task, before_s),
    )
    for row in rows:
        _expire_one(step, LeaseRow(*row), "overdue")


def _expire_one(step: Step, lease: LeaseRow, cause: str = "") -> None:
    close(step, lease, "expired", cause)
    # The hashes of an upload that never came must not bind a later commit of the same lease.
    step.tx.change("delete from vote where lease = ?", (lease.id,))
    step.tx.change("update job set lost_expired = lost_expired + 1 where id = ?", (lease.job,))
    task = tasks.load(step.tx, lease.task)
    if task is not None:
        events.note(step, lease.job, "expired", task.number, cause)
        again(step, task, lease)


def in_states(tx: Tx, task: int, states: Sequence[str]) -> list[LeaseRow]:
    """Leases of a task in some states, oldest first."""
    marks = ", ".join("?" * len(states))
    parameters: list[Value] = [task, *states]
    rows = tx.rows(
        f"select {_COLUMNS} from lease where task = ? and state in ({marks})"  # noqa: S608
        " order by issued_s, id",
        parameters,
    )
    return [LeaseRow(*row) for row in rows]


def arriving(tx: Tx) -> int:
    """Results that were announced and whose bytes are not all here yet."""
    row = tx.one("select count(*) from lease where state = 'committed'")
    return 0 if row is None else int(row[0])
