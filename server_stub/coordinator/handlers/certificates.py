"""Certificates of credits: what an owner did for a lab in some days, as it was when they asked.

Owns: who gets one, its code and its seal. A certificate says nothing that the ledger does not, and
it ends with the account that it names. Must not: draw a page.
"""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from typing import Final

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.credits import Certificate, SealedCertificate
from gpugoblin.wire.signing import sign_json
from server_stub.coordinator import audit
from server_stub.coordinator.handlers.common import number
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.house import House, draw_long_code, spelled
from server_stub.coordinator.ledger import day_of
from server_stub.coordinator.store import Transaction, Value

__all__ = ["find", "find_own", "issue", "labs_of", "own", "seal", "sealed"]

MAX_CERTIFICATES: Final = 200
"""Of one account: each is a row that stays as long as the account."""

_FIELDS: Final = (
    "certificate, certificate.name, lab.name, since_day, until_day, micro_units, receipts,"
    " issued_day"
)


def issue(
    tx: Transaction, now_s: float, rng: random.Random, person: Person, lab: str, since: str,
    until: str,
) -> str:  # fmt: skip
    """The code of a certificate for the days `since` to `until` (ISO dates, both included).

    Asking again for the same gives the same code, as long as it would say the same.

    Raises:
        CoordinatorError: `certificate_days_wrong`, `certificate_empty`, `certificates_crowded`.
    """
    first, last = _day(since), _day(until)
    today = day_of(now_s)
    if first is None or last is None or not 0 <= first <= last <= today:
        raise CoordinatorError("certificate_days_wrong", since=since[:20], until=until[:20])
    row = tx.row(
        "SELECT COALESCE(SUM(micro_units), 0), COUNT(*) FROM entry JOIN posting"
        " ON posting.entry = entry.entry AND micro_units > 0"
        " WHERE account = ? AND lab = ? AND day BETWEEN ? AND ?",
        person.account, lab, first, last,
    )  # fmt: skip
    micro, receipts = (int(row[0]), int(row[1])) if row is not None else (0, 0)
    if not receipts:
        raise CoordinatorError("certificate_empty")
    same = tx.row(
        "SELECT certificate FROM certificate WHERE account = ? AND name = ? AND lab = ?"
        " AND since_day = ? AND until_day = ? AND micro_units = ? AND receipts = ?",
        person.account, person.name, lab, first, last, micro, receipts,
    )  # fmt: skip
    if same is not None:
        return str(same[0])
    held = number(tx, "SELECT COUNT(*) FROM certificate WHERE account = ?", person.account)
    if held >= MAX_CERTIFICATES:
        raise CoordinatorError("certificates_crowded", most=MAX_CERTIFICATES)
    code = draw_long_code(rng)
    tx.execute(
        "INSERT INTO certificate (certificate, account, name, lab, since_day, until_day,"
        " micro_units, receipts, issued_day) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        code, person.account, person.name, lab, first, last, micro, receipts, today,
    )  # fmt: skip
    audit.record(tx, now_s, person.account, "certificate_issue", lab)
    return code


def find(tx: Transaction, code: str) -> Certificate:
    """The certificate with that code, in any spelling.

    Raises:
        CoordinatorError: `certificate_unknown`.
    """
    found = _read(tx, "certificate = ?", spelled(code))
    if not found:
        raise CoordinatorError("certificate_unknown")
    return found[0]


def find_own(tx: Transaction, account: str, code: str) -> Certificate:
    """The certificate with that code, if it is the account's.

    Raises:
        CoordinatorError: `certificate_unknown`: also for somebody else's.
    """
    found = _read(tx, "certificate = ? AND account = ?", spelled(code), account)
    if not found:
        raise CoordinatorError("certificate_unknown")
    return found[0]


def own(tx: Transaction, account: str) -> list[Certificate]:
    """The certificates of an account, the latest first."""
    return _read(tx, "account = ?", account)


def labs_of(tx: Transaction, account: str) -> list[tuple[str, str, int]]:
    """Id and name of each lab that verified work of the account, and the first day of it."""
    return [
        (lab, name, first)
        for lab, name, first in tx.rows(
            "SELECT lab.lab, lab.name, MIN(day) FROM entry JOIN lab ON lab.lab = entry.lab"
            " WHERE account = ? GROUP BY lab.lab, lab.name ORDER BY lab.name",
            account,
        )
    ]


def seal(house: House, one: Certificate) -> str:
    """The coordinator's signature over what is certified, in hexadecimal digits.

    Whoever has the coordinator's public key can check it without asking (`verify_json`).
    """
    return sign_json(house.ticket_key, one).hex()


def sealed(house: House, one: Certificate) -> SealedCertificate:
    """A certificate to be kept: `gpugoblin certificate check` checks it without asking."""
    return SealedCertificate(one, seal(house, one), house.public_key.hex())


def _read(tx: Transaction, where: str, *values: Value) -> list[Certificate]:
    rows = tx.rows(
        f"SELECT {_FIELDS} FROM certificate JOIN lab ON lab.lab = certificate.lab"  # noqa: S608 - our words
        f" WHERE {where} ORDER BY issued_day DESC, certificate",
        *values,
    )
    return [Certificate(*row) for row in rows]


def _day(text: str) -> int | None:
    try:
        parsed = date.fromisoformat(text)
    except ValueError:
        return None
    return day_of(datetime(parsed.year, parsed.month, parsed.day, tzinfo=UTC).timestamp())
