"""What the operator does: accounts, labs, revocations, and the figures of the status page.

Owns: the operator's verbs. Each that changes something writes a line of the audit record.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from typing import Final, Literal

from msgspec import Struct

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import AccountId, DeviceId, GrantId, LabId
from server_stub.coordinator import audit
from server_stub.coordinator.handlers.common import number
from server_stub.coordinator.handlers.grants import uncount
from server_stub.coordinator.handlers.signin import sign_out_all
from server_stub.coordinator.house import draw_id
from server_stub.coordinator.ledger import MICRO
from server_stub.coordinator.store import Transaction

__all__ = [
    "AccountRow",
    "LabRow",
    "NewLab",
    "Status",
    "add_account",
    "add_lab",
    "end_sessions",
    "list_accounts",
    "list_labs",
    "make_operator",
    "remove_operator",
    "revoke_device",
    "revoke_grant",
    "revoke_lab_grants",
    "status",
]

ACTOR: Final = "operator"
_NAME: Final = re.compile(r"[a-z0-9._-]{1,64}", re.ASCII)
_HEX64: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,180}", re.ASCII)
MAX_WEIGHT: Final = 1000.0
MAX_CARDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NewLab:
    """What the operator says about a lab node. Key and certificate are hexadecimal digits."""

    name: str
    public_key: str
    address: str
    certificate_sha256: str | None = None
    weight: float = 1.0
    max_cards: int = MAX_CARDS


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account as listed. `devices` counts those that are not revoked."""

    account: AccountId
    name: str
    created_s: float
    devices: int
    units: float


@dataclass(frozen=True, slots=True)
class LabRow:
    """A lab as listed."""

    lab: LabId
    name: str
    address: str
    weight: float
    cards_wanted: int
    public_key: str


class Status(Struct, frozen=True):
    """What anyone may know: counts, the clock and the public key that signs tickets."""

    version: str
    time_s: float
    coordinator_key: str
    schema: int
    accounts: int
    devices: int
    labs: int
    grants: int
    receipts: int
    units: float


def add_account(tx: Transaction, now_s: float, rng: random.Random, name: str) -> AccountId:
    """A new account. Raises CoordinatorError `coordinator_name_malformed` or `..._name_taken`."""
    _check_name("account", name)
    if tx.row("SELECT 1 FROM account WHERE name = ?", name) is not None:
        raise CoordinatorError("coordinator_name_taken", kind="account", name=name)
    account = AccountId(draw_id("account", rng))
    tx.execute(
        "INSERT INTO account (account, name, created_s) VALUES (?, ?, ?)", account, name, now_s
    )
    audit.record(tx, now_s, ACTOR, "account_add", account)
    return account


def list_accounts(tx: Transaction) -> list[AccountRow]:
    """All accounts by name, with what they have earned."""
    return [
        AccountRow(AccountId(account), name, created_s, devices, micro / MICRO)
        for account, name, created_s, devices, micro in tx.rows(
            "SELECT account.account, account.name, account.created_s,"
            " (SELECT COUNT(*) FROM device WHERE device.account = account.account"
            "  AND revoked_s IS NULL),"
            " COALESCE((SELECT micro_units FROM balance"
            "  WHERE holder = 'account:' || account.account), 0)"
            " FROM account ORDER BY account.name"
        )
    ]


def add_lab(
    tx: Transaction, now_s: float, rng: random.Random, new: NewLab, actor: str = ACTOR
) -> LabId:
    """Registers a lab node by its public key and address, on behalf of `actor`.

    Raises:
        CoordinatorError: `coordinator_name_malformed`, `coordinator_name_taken`,
            `coordinator_lab_malformed`.
    """
    _check_name("lab", new.name)
    for field, is_right in (
        ("key", _HEX64.fullmatch(new.public_key)),
        ("address", _ADDRESS.fullmatch(new.address)),
        (
            "certificate",
            new.certificate_sha256 is None or _HEX64.fullmatch(new.certificate_sha256),
        ),
        ("weight", math.isfinite(new.weight) and 1 / MAX_WEIGHT <= new.weight <= MAX_WEIGHT),
        ("max_cards", 0 <= new.max_cards <= MAX_CARDS),
    ):
        if not is_right:
            raise CoordinatorError("coordinator_lab_malformed", field=field)
    key = bytes.fromhex(new.public_key)
    taken = tx.row("SELECT name FROM lab WHERE name = ? OR public_key = ?", new.name, key)
    if taken is not None:
        raise CoordinatorError("coordinator_name_taken", kind="lab", name=taken[0])
    lab = LabId(draw_id("lab", rng))
    tx.execute(
        "INSERT INTO lab (lab, name, public_key, address, certificate_sha256, weight, created_s,"
        " max_cards) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        lab, new.name, key, new.address, new.certificate_sha256, float(new.weight), now_s,
        new.max_cards,
    )  # fmt: skip
    audit.record(tx, now_s, actor, "lab_add", lab)
    return lab


def list_labs(tx: Transaction) -> list[LabRow]:
    """All labs by name."""
    return [
        LabRow(LabId(lab), name, address, weight, wanted, key.hex())
        for lab, name, address, weight, wanted, key in tx.rows(
            "SELECT lab, name, address, weight, cards_wanted, public_key FROM lab ORDER BY name"
        )
    ]


def revoke_device(
    tx: Transaction, now_s: float, device: DeviceId, actor: str = ACTOR
) -> list[GrantId]:
    """Ends a device for good, and its grants; the grants that were still valid.

    Raises:
        CoordinatorError: `coordinator_subject_unknown`.
    """
    changed = tx.execute(
        "UPDATE device SET revoked_s = COALESCE(revoked_s, ?) WHERE device = ?", now_s, device
    )
    if changed == 0:
        raise CoordinatorError("coordinator_subject_unknown", kind="device", name=device[:64])
    live = tx.rows(
        "SELECT card_grant FROM card_grant"
        " WHERE device = ? AND expires_s > ? AND revoked_s IS NULL ORDER BY card_grant",
        device, now_s,
    )  # fmt: skip
    grants = [GrantId(row[0]) for row in live]
    for grant in grants:
        _revoke(tx, now_s, grant)
    audit.record(tx, now_s, actor, "device_revoke", device)
    return grants


def revoke_lab_grants(tx: Transaction, now_s: float, lab: LabId) -> int:
    """Ends every grant that a lab has now; how many they were. Not recorded: the caller is."""
    live = tx.rows(
        "SELECT card_grant FROM card_grant"
        " WHERE lab = ? AND expires_s > ? AND revoked_s IS NULL ORDER BY card_grant",
        lab, now_s,
    )  # fmt: skip
    for (grant,) in live:
        _revoke(tx, now_s, GrantId(grant))
    return len(live)


def make_operator(tx: Transaction, now_s: float, mailbox: str) -> AccountId:
    """Gives the account of a mailbox the operator's pages.

    Raises:
        CoordinatorError: `account_unknown`: its owner has to sign in once first.
    """
    row = tx.row("SELECT account FROM account WHERE mailbox = ?", mailbox)
    if row is None:
        raise CoordinatorError("account_unknown", name=mailbox[:64])
    tx.execute("UPDATE account SET role = 'operator' WHERE account = ?", row[0])
    audit.record(tx, now_s, ACTOR, "operator_add", row[0])
    return AccountId(row[0])


def remove_operator(tx: Transaction, now_s: float, mailbox: str) -> AccountId:
    """Takes the operator's pages from the account of a mailbox, at its next request.

    Raises:
        CoordinatorError: `coordinator_subject_unknown`: it is no operator's.
    """
    row = tx.row("SELECT account FROM account WHERE mailbox = ? AND role = 'operator'", mailbox)
    if row is None:
        raise CoordinatorError("coordinator_subject_unknown", kind="operator", name=mailbox[:64])
    tx.execute("UPDATE account SET role = 'contributor' WHERE account = ?", row[0])
    audit.record(tx, now_s, ACTOR, "operator_remove", row[0])
    return AccountId(row[0])


def end_sessions(tx: Transaction, now_s: float, name: str, actor: str = ACTOR) -> int:
    """Signs an account out of every browser; how many they were. Its machines go on.

    Raises:
        CoordinatorError: `coordinator_subject_unknown`.
    """
    row = tx.row("SELECT account FROM account WHERE name = ?", name)
    if row is None:
        raise CoordinatorError("coordinator_subject_unknown", kind="account", name=name[:64])
    ended = sign_out_all(tx, row[0])
    audit.record(tx, now_s, actor, "sessions_end", row[0])
    return ended


def revoke_grant(tx: Transaction, now_s: float, grant: GrantId) -> None:
    """Ends one grant. Raises CoordinatorError `coordinator_subject_unknown`."""
    if tx.row("SELECT 1 FROM card_grant WHERE card_grant = ?", grant) is None:
        raise CoordinatorError("coordinator_subject_unknown", kind="grant", name=grant[:64])
    _revoke(tx, now_s, grant)
    audit.record(tx, now_s, ACTOR, "grant_revoke", grant)


def status(tx: Transaction, now_s: float, version: str, public_key: bytes) -> Status:
    """The counts of the public status page."""
    return Status(
        version=version,
        time_s=now_s,
        coordinator_key=public_key.hex(),
        schema=number(tx, "SELECT value FROM counter WHERE name = 'schema'"),
        accounts=number(tx, "SELECT COUNT(*) FROM account"),
        devices=number(tx, "SELECT COUNT(*) FROM device WHERE revoked_s IS NULL"),
        labs=number(tx, "SELECT COUNT(*) FROM lab"),
        grants=number(
            tx,
            "SELECT COUNT(*) FROM card_grant WHERE expires_s > ? AND revoked_s IS NULL"
            " AND released_s IS NULL",
            now_s,
        ),
        receipts=number(tx, "SELECT COUNT(*) FROM receipt"),
        units=number(
            tx,
            "SELECT COALESCE(SUM(micro_units), 0) FROM balance WHERE micro_units > 0",
        )
        / MICRO,
    )


def _revoke(tx: Transaction, now_s: float, grant: GrantId) -> None:
    changed = tx.execute(
        "UPDATE card_grant SET revoked_s = ? WHERE card_grant = ? AND revoked_s IS NULL",
        now_s, grant,
    )  # fmt: skip
    if changed:
        uncount(tx, grant)
        tx.execute("UPDATE counter SET value = value + 1 WHERE name = 'revocation'")


def _check_name(kind: Literal["account", "lab"], name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise CoordinatorError("coordinator_name_malformed", kind=kind, name=name[:80])
