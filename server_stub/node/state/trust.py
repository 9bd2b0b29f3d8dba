"""Who may be trusted with what: devices, their grants, independence of owners, revocations.

Owns: tables `device`, `known_grant`, `revoked`, `nonce`. A device starts untrusted: every result
of it is checked in full. Passed full checks earn that its vote counts beside that of an
independent owner, on tasks that are small beside what was checked: ten checks of next to nothing
earn a vote on next to nothing. One rejected result takes all of it away. Only the verdicts of
checks and of the validator reach this table, never a disagreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gpugoblin.graph.dtypes import told as told_of
from gpugoblin.wire.messages.task import Capabilities
from server_stub.node.state import bulk, events, links
from server_stub.node.state.words import LOCAL_DEVICE, SANDBOX_RANK, Party, Step
from server_stub.node.store.protocol import Row, Tx

__all__ = [
    "DeviceRow",
    "Standing",
    "admit",
    "estimate_s",
    "forget_nonces",
    "independent",
    "is_trusted",
    "known",
    "measured",
    "passed",
    "rejected",
    "revoke",
    "revoked",
    "seen_nonces",
    "work_of",
]


class DeviceRow(NamedTuple):
    """What the lab knows about one device."""

    key: str
    owner: str
    bucket: str
    owner_age_days: int
    passed: int
    rejected: int
    quarantined_until_s: float
    last_job: str
    last_affinity: int
    memory_bytes: int
    max_slot_bytes: int
    sandbox: int
    catalog_hash: str
    flops_per_s: float
    bytes_per_s: float
    proven: int
    measured_flops_per_s: float
    dtypes: int


_COLUMNS = (
    "key, owner, bucket, owner_age_days, passed, rejected, quarantined_until_s, last_job,"
    " last_affinity, memory_bytes, max_slot_bytes, sandbox, catalog_hash,"
    " flops_per_s, bytes_per_s, proven, measured_flops_per_s, dtypes"
)

_LIVE: Final = (
    "select grant_id, count(*), sum(state = 'issued') from lease"
    " where state in ('issued', 'committed') and grant_id in ({marks}) group by grant_id"
)
FLOPS_A_BYTE: Final = 100
MAX_WORK: Final = 10**17
MAX_PROVEN: Final = 4 * 10**18
"""Sums stay within 64 bits."""
LEAST_FLOPS: Final = 10**8
"""Smaller tasks measure how often a device asks."""
LEAST_S: Final = 0.005
LEAST_BYTES_PER_S: Final = 125_000.0
UNPROVEN_S: Final = 900.0
SEEN_S: Final = 5.0
"""Rules look at `seen_s` in minutes."""


class Standing(NamedTuple):
    """What a device has to do with the lab at this moment.

    Args:
        live: leases of its grant that are issued or committed.
        issued: those that are issued.
        is_called: a second opinion is asked of it.
    """

    live: int
    issued: int
    is_called: bool


def admit(
    step: Step, asked: Sequence[tuple[Party, Capabilities | None]]
) -> list[tuple[DeviceRow, Standing]]:
    """Notes that devices are here, with what their grants say and, where given, what they can do.

    What is known already is not written again, `seen_s` every few seconds. No device is named
    twice.
    """
    keys, values = bulk.marks([party.device for party, _ in asked])
    rows = {row[2]: row for row in step.tx.rows(
        f"select grant_exp_s, seen_s, {_COLUMNS} from device where key in ({keys})", values  # noqa: S608
    )}  # fmt: skip
    called = {row[0] for row in step.tx.rows(
        f"select device from vote_call where device in ({keys})", values  # noqa: S608
    )}  # fmt: skip
    grants, values = bulk.marks([party.grant for party, _ in asked])
    live = {row[0]: row for row in step.tx.rows(_LIVE.format(marks=grants), values)}
    admitted = []
    for party, capabilities in asked:
        _, count, issued = live.get(party.grant, ("", 0, 0))
        device = _noted(step, party, capabilities, rows.get(party.device))
        admitted.append((device, Standing(count, issued, party.device in called)))
    return admitted


def _noted(
    step: Step, party: Party, capabilities: Capabilities | None, row: Row | None
) -> DeviceRow:
    """The device's row with what is new about it."""
    told = (party.owner, party.bucket, party.owner_age_days)
    known_told = None if row is None else (*row[3:6], row[0])
    if row is not None and known_told == (*told, party.grant_exp_s):
        is_seen = row[1] >= step.now_s - SEEN_S
    else:
        is_seen = False
    if not is_seen:
        step.tx.change(
            "insert into device(key, owner, bucket, owner_age_days, grant_exp_s, seen_s)"
            " values(?, ?, ?, ?, ?, ?) on conflict(key) do update set owner = excluded.owner,"
            " bucket = excluded.bucket, owner_age_days = excluded.owner_age_days,"
            " grant_exp_s = excluded.grant_exp_s, seen_s = excluded.seen_s",
            (party.device, *told, party.grant_exp_s, step.now_s),
        )
    if capabilities is not None:
        return _learn(step, party, capabilities)
    if row is not None and known_told is not None and known_told[:3] == told:
        return DeviceRow(*row[2:])
    if row is not None:
        return DeviceRow(*row[2:])._replace(
            owner=party.owner, bucket=party.bucket, owner_age_days=party.owner_age_days
        )
    device = known(step.tx, party.device)
    assert device is not None  # noqa: S101 - it was written above
    return device


def _learn(step: Step, party: Party, capabilities: Capabilities) -> DeviceRow:
    step.tx.change(
        "insert into known_grant values(?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict(id) do nothing",
        (party.grant, party.device, party.card, party.owner, party.bucket, party.owner_age_days,
         party.grant_exp_s, party.max_leases, step.now_s),
    )  # fmt: skip
    row = step.tx.one(
        "update device set memory_bytes = ?, max_slot_bytes = ?, sandbox = ?, flops_per_s = ?,"  # noqa: S608
        f" bytes_per_s = ?, catalog_hash = ?, dtypes = ? where key = ? returning {_COLUMNS}",
        (capabilities.memory_bytes, capabilities.max_slot_bytes,
         SANDBOX_RANK[capabilities.sandbox_level], capabilities.flops_per_s,
         capabilities.bytes_per_s, capabilities.catalog_hash, _dtypes(capabilities),
         party.device),
    )  # fmt: skip
    assert row is not None  # noqa: S101 - the row was written above
    return DeviceRow(*row)


def _dtypes(told: Capabilities) -> int:
    return told_of(
        told.dtypes, told.arithmetic, told.convolutions, told.operators, told.classes
    ).mask()


def known(tx: Tx, device: str) -> DeviceRow | None:
    """The device's row; None for the lab's own engine and for strangers."""
    row = tx.one(f"select {_COLUMNS} from device where key = ?", (device,))  # noqa: S608 - constant
    return None if row is None else DeviceRow(*row)


def work_of(flops: int, bytes_moved: int) -> int:
    """How large a task is, by the same measure as credit: operations, or bytes where they cost
    more."""
    return min(MAX_WORK, max(flops, FLOPS_A_BYTE * bytes_moved))


def is_trusted(step: Step, device: str, work: int) -> bool:
    """Whether the device's vote counts on a task of this size (`work_of`).

    Enough full checks passed, of as much work together as so many tasks of this size; an owner old
    enough.
    """
    row = known(step.tx, device)
    return (
        row is not None
        and row.passed >= step.rules.trusted_passes
        and row.proven >= step.rules.trusted_passes * work
        and row.owner_age_days >= step.rules.owner_age_days
        and row.quarantined_until_s <= step.now_s
    )


def independent(step: Step, task: int, device: str) -> list[str]:
    """Devices that may give the second opinion on a task after `device`'s result.

    Another owner, another network, both old and trusted with this much, seen lately, with a grant
    that lasts, enough memory and walls, the task's dtypes, and no lease on this task so far from
    anyone of that owner.
    """
    rules = step.rules
    rows = step.tx.rows(
        "select d.key from device d, task t, device own where t.id = ? and own.key = ?"
        " and d.owner != own.owner and d.bucket != own.bucket and d.owner_age_days >= ?"
        " and d.passed >= ? and d.proven >= ? * min(?, max(t.flops, ? * t.bytes_moved))"
        " and d.quarantined_until_s <= ? and d.seen_s >= ?"
        " and d.grant_exp_s >= ? and d.memory_bytes >= t.memory_bound_bytes"
        " and d.memory_bytes >= t.min_memory_bytes and d.max_slot_bytes >= t.slot_bytes"
        " and d.sandbox >= t.min_sandbox and t.dtypes & ~d.dtypes = 0 and d.catalog_hash = ?"
        " and not exists (select 1 from lease l where l.task = t.id and"
        " (l.owner = d.owner or l.bucket = d.bucket)) order by d.key",
        (task, device, rules.owner_age_days, rules.trusted_passes, rules.trusted_passes, MAX_WORK,
         FLOPS_A_BYTE, step.now_s, step.now_s - rules.active_s,
         step.now_s + rules.lease_floor_s, rules.catalog_hash),
    )  # fmt: skip
    return [row[0] for row in rows]


def passed(step: Step, device: str, work: int) -> None:
    """A full check of a result of this device has passed, of a task of this size."""
    step.tx.change(
        "update device set passed = passed + 1, proven = min(?, proven + ?) where key = ?",
        (MAX_PROVEN, min(work, MAX_WORK), device),
    )


def measured(step: Step, lease: str, flops: int) -> None:
    """Learns a device's rate from a verified result, by the lab's clock: from lease to result.

    It is the rate that leases follow, so what the device waited for in between belongs to it.
    """
    if flops < LEAST_FLOPS:
        return
    row = step.tx.one(
        "select device, committed_s - issued_s from lease where id = ? and committed_s is not null",
        (lease,),
    )
    if row is None:
        return
    rate = flops / max(row[1], LEAST_S)
    step.tx.change(
        "update device set measured_flops_per_s = case when measured_flops_per_s = 0 then ?"
        " else 0.8 * measured_flops_per_s + 0.2 * ? end where key = ?",
        (rate, rate, row[0]),
    )


def estimate_s(device: DeviceRow, flops: int, bytes_moved: int) -> float:
    """How long a task takes a device, on its way over a usual link included. Its own word counts
    within bounds: what it says of bytes is the rate of its memory, so no way is faster by it.

    A device that calls itself slow would else keep a task from the others for a day. Its rate is
    within a factor of four of what was measured of it here; before that, its word is believed as
    far as `UNPROVEN_S` reaches.
    """
    claimed = max(device.flops_per_s, 1.0)
    rate = min(links.ASSUMED.bytes_per_s, max(device.bytes_per_s, LEAST_BYTES_PER_S))
    moved_s = bytes_moved / rate
    if device.measured_flops_per_s == 0:
        return min(UNPROVEN_S, flops / claimed + moved_s)
    least, most = device.measured_flops_per_s / 4, device.measured_flops_per_s * 4
    return flops / min(most, max(least, claimed)) + moved_s


def rejected(step: Step, device: str, job: str, number: int) -> None:
    """The validator or a product check that it confirmed has refused a result of this device."""
    if device == LOCAL_DEVICE:
        return
    found = step.tx.one(
        "update device set rejected = case when passed >= ? then 1 else rejected + 1"
        " end, passed = 0, proven = 0 where key = ? returning rejected",
        (step.rules.trusted_passes, device),
    )
    if found is not None and found[0] >= step.rules.quarantine_after:
        step.tx.change(
            "update device set quarantined_until_s = ?, rejected = 0 where key = ?",
            (step.now_s + step.rules.quarantine_s, device),
        )
        events.note(step, job, "rejected", number, "device quarantined")


def revoke(step: Step, number: int, grants: Iterable[str]) -> bool:
    """Takes a revocation list if it is newer than the last one; live leases of its grants end."""
    row = step.tx.one("select value from meta where key = 'revocations'")
    if row is not None and int(row[0]) >= number:
        return False
    step.tx.change(
        "insert into meta values('revocations', ?) on conflict(key) do update set"
        " value = excluded.value",
        (str(number),),
    )
    step.tx.change("delete from revoked")
    for grant in grants:
        step.tx.change("insert into revoked values(?) on conflict do nothing", (grant,))
    return True


def revoked(tx: Tx) -> frozenset[str]:
    """Every grant that is revoked, as of the last list."""
    return frozenset(row[0] for row in tx.rows("select grant_id from revoked"))


def seen_nonces(step: Step, nonces: Sequence[tuple[bytes, bytes, float] | None]) -> list[bool]:
    """Notes the (key, nonce, until) of signed requests; True where it was here before.

    `until` follows from the time that was signed, so it is the same whenever the request comes.
    None stands for a request that needs none.
    """
    rows = [(until_s, key, nonce) for key, nonce, until_s in filter(None, nonces)]
    if not rows:
        return [False] * len(nonces)
    step.tx.change("savepoint nonces")
    added = bulk.insert(
        step.tx, "insert into nonce values", "(?, ?, ?)", rows, " on conflict do nothing"
    )
    if added < len(rows):
        step.tx.change("rollback to savepoint nonces")
        seen = _seen_one_by_one(step, nonces, rows)
    else:
        seen = [False] * len(nonces)
    step.tx.change("release savepoint nonces")
    return seen


def _seen_one_by_one(
    step: Step, nonces: Sequence[tuple[bytes, bytes, float] | None],
    rows: Sequence[tuple[float, bytes, bytes]],
) -> list[bool]:  # fmt: skip
    """Which of them it was: telling costs twice what adding does, and is seldom asked."""
    fresh = Counter(
        (row[0], row[1])
        for some in bulk.pieces(rows)
        for row in step.tx.rows(
            "insert into nonce values" + ", ".join(["(?, ?, ?)"] * len(some))
            + " on conflict do nothing returning key, nonce",
            [value for each in some for value in each],
        )
    )  # fmt: skip
    seen = []
    for each in nonces:
        # The first of two that came together is the fresh one.
        seen.append(each is not None and not fresh[each[:2]])
        if each is not None:
            fresh[each[:2]] -= 1
    return seen


def forget_nonces(step: Step) -> None:
    """Nonces of requests that are too old to be taken are not needed any more."""
    step.tx.change("delete from nonce where until_s < ?", (step.now_s,))
