"""Who may be trusted with what: devices, their grants, independence of owners, revocations.

Owns: tables `device`, `known_grant`, `revoked`, `nonce`. A device starts untrusted: every result
of it is checked in full. Passed full checks earn that its vote counts beside that of an
independent owner; one rejected result takes all of it away. Only the verdicts of checks and of the
validator reach this table, never a disagreement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gpugoblin.wire.messages.task import Capabilities
from server_stub.node.state import events
from server_stub.node.state.words import LOCAL_DEVICE, SANDBOX_RANK, Party, Step
from server_stub.node.store.protocol import Tx

__all__ = [
    "DeviceRow",
    "Standing",
    "admit",
    "forget_nonces",
    "independent",
    "is_trusted",
    "known",
    "passed",
    "rejected",
    "revoke",
    "revoked",
    "saw_nonce",
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


_COLUMNS = (
    "key, owner, bucket, owner_age_days, passed, rejected, quarantined_until_s, last_job,"
    " last_affinity, memory_bytes, max_slot_bytes, sandbox, catalog_hash,"
    " flops_per_s, bytes_per_s"
)

_ADMITTED: Final = (
    "select d.owner, d.bucket, d.owner_age_days, d.grant_exp_s, d.seen_s, count(l.id),"  # noqa: S608
    " coalesce(sum(l.state = 'issued'), 0),"
    " exists (select 1 from vote_call where vote_call.device = d.key),"
    f" {', '.join(f'd.{name}' for name in DeviceRow._fields)} from device d left join lease l"
    " on l.grant_id = ? and l.state in ('issued', 'committed') where d.key = ? group by d.key"
)
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
    step: Step, party: Party, capabilities: Capabilities | None
) -> tuple[DeviceRow, Standing]:
    """Notes that a device is here, with what its grant says and, where given, what it can do.

    What is known already is not written again, `seen_s` every few seconds.
    """
    row = step.tx.one(_ADMITTED, (party.grant, party.device))
    told = (party.owner, party.bucket, party.owner_age_days, party.grant_exp_s)
    if row is None or row[:4] != told or row[4] < step.now_s - SEEN_S:
        step.tx.change(
            "insert into device(key, owner, bucket, owner_age_days, grant_exp_s, seen_s)"
            " values(?, ?, ?, ?, ?, ?) on conflict(key) do update set owner = excluded.owner,"
            " bucket = excluded.bucket, owner_age_days = excluded.owner_age_days,"
            " grant_exp_s = excluded.grant_exp_s, seen_s = excluded.seen_s",
            (party.device, *told, step.now_s),
        )
        row = step.tx.one(_ADMITTED, (party.grant, party.device))
    assert row is not None  # noqa: S101 - it was written above
    standing = Standing(row[5], row[6], bool(row[7]))
    if capabilities is None:
        return DeviceRow(*row[8:]), standing
    step.tx.change(
        "insert into known_grant values(?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict(id) do nothing",
        (party.grant, party.device, party.card, party.owner, party.bucket, party.owner_age_days,
         party.grant_exp_s, party.max_leases, step.now_s),
    )  # fmt: skip
    row = step.tx.one(
        "update device set memory_bytes = ?, max_slot_bytes = ?, sandbox = ?, flops_per_s = ?,"  # noqa: S608
        f" bytes_per_s = ?, catalog_hash = ? where key = ? returning {_COLUMNS}",
        (capabilities.memory_bytes, capabilities.max_slot_bytes,
         SANDBOX_RANK[capabilities.sandbox_level], capabilities.flops_per_s,
         capabilities.bytes_per_s, capabilities.catalog_hash, party.device),
    )  # fmt: skip
    assert row is not None  # noqa: S101 - the row was written above
    return DeviceRow(*row), standing


def known(tx: Tx, device: str) -> DeviceRow | None:
    """The device's row; None for the lab's own engine and for strangers."""
    row = tx.one(f"select {_COLUMNS} from device where key = ?", (device,))  # noqa: S608 - constant
    return None if row is None else DeviceRow(*row)


def is_trusted(step: Step, device: str) -> bool:
    """Whether the device's vote counts: enough full checks passed, an owner old enough."""
    row = known(step.tx, device)
    return (
        row is not None
        and row.passed >= step.rules.trusted_passes
        and row.owner_age_days >= step.rules.owner_age_days
        and row.quarantined_until_s <= step.now_s
    )


def independent(step: Step, task: int, device: str) -> list[str]:
    """Devices that may give the second opinion on a task after `device`'s result.

    Another owner, another network, both old and trusted, seen lately, with a grant that lasts,
    enough memory and walls, and no lease on this task so far from anyone of that owner.
    """
    rules = step.rules
    rows = step.tx.rows(
        "select d.key from device d, task t, device own where t.id = ? and own.key = ?"
        " and d.owner != own.owner and d.bucket != own.bucket and d.owner_age_days >= ?"
        " and d.passed >= ? and d.quarantined_until_s <= ? and d.seen_s >= ?"
        " and d.grant_exp_s >= ? and d.memory_bytes >= t.memory_bound_bytes"
        " and d.memory_bytes >= t.min_memory_bytes and d.max_slot_bytes >= t.slot_bytes"
        " and d.sandbox >= t.min_sandbox and d.catalog_hash = ?"
        " and not exists (select 1 from lease l where l.task = t.id and"
        " (l.owner = d.owner or l.bucket = d.bucket)) order by d.key",
        (task, device, rules.owner_age_days, rules.trusted_passes, step.now_s,
         step.now_s - rules.active_s, step.now_s + rules.lease_floor_s, rules.catalog_hash),
    )  # fmt: skip
    return [row[0] for row in rows]


def passed(step: Step, device: str) -> None:
    """A full check of a result of this device has passed."""
    step.tx.change("update device set passed = passed + 1 where key = ?", (device,))


def rejected(step: Step, device: str, job: str, number: int) -> None:
    """The validator or a product check that it confirmed has refused a result of this device."""
    if device == LOCAL_DEVICE:
        return
    found = step.tx.one(
        "update device set passed = 0, rejected = case when passed >= ? then 1 else rejected + 1"
        " end where key = ? returning rejected",
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


def saw_nonce(step: Step, key: bytes, nonce: bytes, until_s: float) -> bool:
    """Notes the nonce of a signed request; True when the same request was here before.

    `until_s` follows from the time that was signed, so it is the same whenever the request comes.
    """
    return (
        step.tx.change(
            "insert into nonce values(?, ?, ?) on conflict do nothing", (until_s, key, nonce)
        )
        == 0
    )


def forget_nonces(step: Step) -> None:
    """Nonces of requests that are too old to be taken are not needed any more."""
    step.tx.change("delete from nonce where until_s < ?", (step.now_s,))
