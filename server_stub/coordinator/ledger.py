"""The double-entry ledger of credits: every entry takes from a lab what it gives to an owner.

Owns: booking, balances and sums. Must not: decide whether a receipt is genuine.

Units are verified work (docs/decisions/060), kept as whole millionths so that sums are exact. An
entry has two postings, one negative for the lab and one positive for the owner's account; so all
postings, and all balances, always sum to zero. Entries are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpugoblin.wire.credits import MICRO
from server_stub.coordinator.store import Transaction

__all__ = [
    "MICRO",
    "Credit",
    "LedgerFault",
    "audit_ledger",
    "book",
    "booked_on_day",
    "credits_by",
    "day_of",
    "to_micro",
]

MAX_BALANCE: Final = 2**62
_DAY_S: Final = 86_400

_GROUPS: Final = {
    "owner": "account.name",
    "device": "entry.device",
    "lab": "lab.name",
    "day": "entry.day",
}


@dataclass(frozen=True, slots=True)
class Credit:
    """The sum of what an owner, device, lab or day (days since 1970) has earned, in units."""

    subject: str
    units: float
    receipts: int


@dataclass(frozen=True, slots=True)
class LedgerFault:
    """A holder whose balance is not the sum of its postings, or `(all)` when that is not zero."""

    holder: str
    balance_micro_units: int
    posted_micro_units: int


def to_micro(units: float) -> int:
    """Units as whole millionths, at least one."""
    return max(1, round(units * MICRO))


def day_of(moment_s: float) -> int:
    """Days since 1970, in UTC."""
    return int(moment_s // _DAY_S)


def book(
    tx: Transaction,
    *,
    receipt: str,
    account: str,
    device: str,
    lab: str,
    day: int,
    micro_units: int,
) -> bool:
    """Books one receipt; False, and nothing booked, when a balance would overflow.

    The caller has stored the receipt, whose id can be booked only once.
    """
    holders = ((f"lab:{lab}", -micro_units), (f"account:{account}", micro_units))
    for holder, change in holders:
        row = tx.row("SELECT micro_units FROM balance WHERE holder = ?", holder)
        if abs((row[0] if row is not None else 0) + change) > MAX_BALANCE:
            return False
    tx.execute(
        "INSERT INTO entry (receipt, account, device, lab, day) VALUES (?, ?, ?, ?, ?)",
        receipt, account, device, lab, day,
    )  # fmt: skip
    row = tx.row("SELECT entry FROM entry WHERE receipt = ?", receipt)
    number = row[0] if row is not None else 0
    for holder, change in holders:
        tx.execute(
            "INSERT INTO posting (entry, holder, micro_units) VALUES (?, ?, ?)",
            number, holder, change,
        )  # fmt: skip
        tx.execute(
            "INSERT INTO balance (holder, micro_units) VALUES (?, ?) ON CONFLICT (holder)"
            " DO UPDATE SET micro_units = balance.micro_units + excluded.micro_units",
            holder, change,
        )  # fmt: skip
    tx.execute(
        "INSERT INTO lab_day (lab, day, micro_units) VALUES (?, ?, ?) ON CONFLICT (lab, day)"
        " DO UPDATE SET micro_units = lab_day.micro_units + excluded.micro_units",
        lab, day, micro_units,
    )  # fmt: skip
    tx.execute(
        "UPDATE team_member SET micro_units = micro_units + ?"
        " WHERE account = ? AND until_s IS NULL",
        micro_units, account,
    )  # fmt: skip
    return True


def booked_on_day(tx: Transaction, lab: str, day: int) -> int:
    """What a lab has booked on one day, in millionths."""
    row = tx.row("SELECT micro_units FROM lab_day WHERE lab = ? AND day = ?", lab, day)
    return int(row[0]) if row is not None else 0


def credits_by(tx: Transaction, group: str) -> list[Credit]:
    """Sums by `owner`, `device`, `lab` or `day`, the largest first (days: the latest first).

    Raises:
        LookupError: another group, which is a programming error.
    """
    column = _GROUPS[group]
    order = "1 DESC" if group == "day" else "2 DESC, 1"
    rows = tx.rows(
        f"SELECT {column}, SUM(posting.micro_units), COUNT(*) FROM entry"  # noqa: S608 - our words
        " JOIN posting ON posting.entry = entry.entry AND posting.micro_units > 0"
        " JOIN account ON account.account = entry.account"
        " JOIN lab ON lab.lab = entry.lab"
        f" GROUP BY 1 ORDER BY {order}"
    )
    return [Credit(str(subject), micro / MICRO, count) for subject, micro, count in rows]


def audit_ledger(tx: Transaction) -> list[LedgerFault]:
    """What is wrong with the ledger: nothing, unless somebody changed it around the triggers."""
    faults = [
        LedgerFault(holder, balance or 0, posted or 0)
        for holder, balance, posted in tx.rows(
            "SELECT holder, SUM(balance), SUM(posted) FROM ("
            " SELECT holder, micro_units AS balance, 0 AS posted FROM balance UNION ALL"
            " SELECT holder, 0, micro_units FROM posting) AS side GROUP BY holder"
            " HAVING SUM(balance) <> SUM(posted)"
        )
    ]
    row = tx.row("SELECT COALESCE(SUM(micro_units), 0) FROM posting")
    total = int(row[0]) if row is not None else 0
    if total:
        faults.append(LedgerFault("(all)", 0, total))
    return faults
