"""What a signed-in person sees and does: account, machines, credits, export, deletion.

Owns: the rules of one's own account. Every look-up names the account, so nobody reaches another's.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import AccountId, DeviceId, LabId
from gpugoblin.wire.signing import fingerprint
from server_stub.coordinator import audit
from server_stub.coordinator.handlers import applications, certificates, operator, teams
from server_stub.coordinator.handlers.signin import Person, sign_out_all
from server_stub.coordinator.ledger import MICRO
from server_stub.coordinator.store import Transaction

__all__ = [
    "DayCredit",
    "Machine",
    "change",
    "close",
    "days",
    "export",
    "leaders",
    "machines",
    "revoke_machine",
    "units_of",
]

MAX_MACHINES: Final = 1000
_NAME: Final = re.compile(r"[a-z0-9._-]{1,64}", re.ASCII)
_KEPT: Final = "former-"


@dataclass(frozen=True, slots=True)
class Machine:
    """A device of the account. `cards` counts its cards that work for a lab now."""

    device: DeviceId
    fingerprint: str
    created_s: float
    seen_s: float | None
    revoked_s: float | None
    cards: int
    labs: tuple[str, ...]
    units: float


@dataclass(frozen=True, slots=True)
class DayCredit:
    """Verified work of one day (days since 1970, in UTC) for one lab."""

    day: int
    lab: str
    units: float
    receipts: int


def machines(tx: Transaction, now_s: float, account: str) -> list[Machine]:
    """The devices of an account, the latest first; those that were revoked at the end."""
    found = []
    # Once for all of them: each such question reads the whole ledger.
    earned: dict[str, int] = dict(
        tx.rows(
            "SELECT device, SUM(micro_units) FROM entry JOIN posting"
            " ON posting.entry = entry.entry AND micro_units > 0 WHERE account = ? GROUP BY device",
            account,
        )
    )
    for device, key, created_s, seen_s, revoked_s in tx.rows(
        "SELECT device, public_key, created_s, seen_s, revoked_s FROM device WHERE account = ?"
        " ORDER BY revoked_s IS NOT NULL, created_s DESC LIMIT ?",
        account, MAX_MACHINES,
    ):  # fmt: skip
        busy = tx.rows(
            "SELECT lab.name, COUNT(DISTINCT card) FROM card_grant JOIN lab USING (lab)"
            " WHERE device = ? AND expires_s > ? AND revoked_s IS NULL AND released_s IS NULL"
            " GROUP BY lab.name ORDER BY lab.name",
            device, now_s,
        )  # fmt: skip
        units = earned.get(device, 0) / MICRO
        found.append(
            Machine(
                DeviceId(device), fingerprint(key), created_s, seen_s, revoked_s,
                sum(count for _, count in busy), tuple(name for name, _ in busy), units,
            )
        )  # fmt: skip
    return found


def revoke_machine(tx: Transaction, now_s: float, person: Person, device: str) -> None:
    """Ends one of the person's devices for good.

    Raises:
        CoordinatorError: `coordinator_subject_unknown`: also for somebody else's device.
    """
    row = tx.row("SELECT 1 FROM device WHERE device = ? AND account = ?", device, person.account)
    if row is None:
        raise CoordinatorError("coordinator_subject_unknown", kind="device", name=device[:64])
    operator.revoke_device(tx, now_s, DeviceId(device), actor=person.account)


def units_of(tx: Transaction, account: str) -> float:
    """The verified work of an account, in units."""
    row = tx.row("SELECT micro_units FROM balance WHERE holder = ?", f"account:{account}")
    return (row[0] if row is not None else 0) / MICRO


def days(tx: Transaction, account: str, since_day: int) -> list[DayCredit]:
    """Verified work by day and lab, the latest day first."""
    return [
        DayCredit(day, lab, micro / MICRO, count)
        for day, lab, micro, count in tx.rows(
            "SELECT day, lab.name, SUM(micro_units), COUNT(*) FROM entry"
            " JOIN posting ON posting.entry = entry.entry AND micro_units > 0"
            " JOIN lab ON lab.lab = entry.lab WHERE entry.account = ? AND day >= ?"
            " GROUP BY day, lab.name ORDER BY day DESC, lab.name",
            account, since_day,
        )
    ]  # fmt: skip


def leaders(tx: Transaction, limit: int) -> list[tuple[str, float]]:
    """The names and units of those who chose to be listed, the most work first."""
    return [
        (name, micro / MICRO)
        for name, micro in tx.rows(
            "SELECT account.name, micro_units FROM balance"
            " JOIN account ON holder = 'account:' || account.account"
            " WHERE is_listed = 1 AND closed_s IS NULL AND micro_units > 0"
            " ORDER BY micro_units DESC, account.name LIMIT ?",
            limit,
        )
    ]


def change(
    tx: Transaction, now_s: float, person: Person, name: str, language: str, is_listed: bool
) -> None:
    """The name, language and listing of an account.

    Raises:
        CoordinatorError: `coordinator_name_malformed`, `coordinator_name_taken`.
    """
    if _NAME.fullmatch(name) is None or name.startswith(_KEPT):
        raise CoordinatorError("coordinator_name_malformed", kind="account", name=name[:80])
    taken = tx.row("SELECT 1 FROM account WHERE name = ? AND account <> ?", name, person.account)
    if taken is not None:
        raise CoordinatorError("coordinator_name_taken", kind="account", name=name)
    tx.execute(
        "UPDATE account SET name = ?, language = ?, is_listed = ? WHERE account = ?",
        name, language, int(is_listed), person.account,
    )  # fmt: skip
    audit.record(tx, now_s, person.account, "account_change", person.account)


def close(tx: Transaction, now_s: float, person: Person) -> None:
    """Deletes what says who the person is, ends their devices and sessions, suspends their labs.

    The entries of the ledger stay, under an account without mailbox or name: other people's sums
    rest on them. So does the audit record, which holds ids alone.
    """
    for (device,) in tx.rows(
        "SELECT device FROM device WHERE account = ? AND revoked_s IS NULL", person.account
    ):
        operator.revoke_device(tx, now_s, DeviceId(device), actor=person.account)
    _end_labs(tx, now_s, person)
    tx.execute(
        "UPDATE application SET person = '-', affiliation = '-', words_project = '-',"
        " words_purpose = '-', words_ethics = '-', words_answer = '',"
        " state = CASE state WHEN 'waiting' THEN 'withdrawn' ELSE state END WHERE account = ?",
        person.account,
    )
    tx.execute("UPDATE abuse_report SET account = NULL WHERE account = ?", person.account)
    teams.forget(tx, now_s, person.account)
    tx.execute("DELETE FROM certificate WHERE account = ?", person.account)
    tx.execute("DELETE FROM mail WHERE mailbox = ?", person.mailbox)
    tx.execute("DELETE FROM login_code WHERE mailbox = ?", person.mailbox)
    tx.execute(
        "UPDATE account SET name = ?, mailbox = NULL, is_listed = 0, role = 'contributor',"
        " closed_s = ? WHERE account = ?",
        _KEPT + person.account[-12:], now_s, person.account,
    )  # fmt: skip
    sign_out_all(tx, person.account)
    audit.record(tx, now_s, person.account, "account_close", person.account)


def _end_labs(tx: Transaction, now_s: float, person: Person) -> None:
    """Nobody answers for these labs any more, so nobody computes for them."""
    for (lab,) in tx.rows(
        "SELECT lab FROM lab JOIN application USING (application) WHERE account = ?", person.account
    ):
        tx.execute(
            "UPDATE lab SET suspended_s = COALESCE(suspended_s, ?), words_public = ''"
            " WHERE lab = ?",
            now_s, lab,
        )  # fmt: skip
        operator.revoke_lab_grants(tx, now_s, LabId(lab))
        audit.record(tx, now_s, person.account, "lab_suspend", lab)


def export(tx: Transaction, now_s: float, person: Person) -> dict[str, Any]:
    """All that is stored about a person, for them to keep."""
    return {
        "account": {
            "id": person.account,
            "name": person.name,
            "mailbox": person.mailbox,
            "language": person.language,
            "listed": person.is_listed,
            "role": person.role,
            "created_s": person.created_s,
        },
        "machines": [asdict(one) for one in machines(tx, now_s, person.account)],
        "credits": [asdict(one) for one in days(tx, AccountId(person.account), 0)],
        "certificates": [msgspec.to_builtins(one) for one in certificates.own(tx, person.account)],
        "teams": [
            {"team": name, "since_s": since_s, "until_s": until_s, "units": micro / MICRO}
            for name, since_s, until_s, micro in tx.rows(
                "SELECT name, since_s, until_s, micro_units FROM team_member"
                " JOIN team USING (team) WHERE account = ? ORDER BY since_s, name",
                person.account,
            )
        ],
        "applications": [
            dict(zip(_APPLICATION, row, strict=True))
            for row in tx.rows(
                f"SELECT {', '.join(_APPLICATION)} FROM application WHERE account = ?"  # noqa: S608
                " ORDER BY created_s",
                person.account,
            )
        ],
        "labs": [
            {"lab": lab, "name": name, "address": address, "suspended": is_suspended}
            for lab, name, address, is_suspended in applications.own_labs(tx, person.account)
        ],
        "reports": [
            {"report": report, "lab": lab, "words_report": words, "created_s": created_s}
            for report, lab, words, created_s in tx.rows(
                "SELECT report, lab, words_report, created_s FROM abuse_report WHERE account = ?"
                " ORDER BY created_s",
                person.account,
            )
        ],
        "grants": [
            dict(zip(_GRANT, row, strict=True))
            for row in tx.rows(
                "SELECT card_grant.device, lab.name, card, card_class, network_bucket, issued_s,"
                " expires_s FROM card_grant JOIN device ON device.device = card_grant.device"
                " JOIN lab ON lab.lab = card_grant.lab WHERE account = ?"
                " ORDER BY issued_s, card_grant",
                person.account,
            )
        ],
        "sessions": [
            {"created_s": created_s, "seen_s": seen_s}
            for created_s, seen_s in tx.rows(
                "SELECT created_s, seen_s FROM session WHERE account = ?", person.account
            )
        ],
        "record": [
            {"at_s": at_s, "action": action, "subject": subject}
            for at_s, action, subject in tx.rows(
                "SELECT at_s, action, subject FROM audit WHERE actor = ? ORDER BY number",
                person.account,
            )
        ],
    }


_GRANT: Final = (
    "device", "lab", "card", "card_class", "network_bucket", "issued_s", "expires_s",
)  # fmt: skip
_APPLICATION: Final = (
    "application", "person", "affiliation", "words_project", "words_purpose", "words_ethics",
    "state", "created_s", "decided_s", "words_answer",
)  # fmt: skip
