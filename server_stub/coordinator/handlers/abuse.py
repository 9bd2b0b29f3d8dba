"""Reports of abuse: anyone may write one, an operator reads and closes it.

Owns: the inbox. It is bounded: one network or account cannot fill it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import audit
from server_stub.coordinator.buckets import Rate, take_stored
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.handlers.words import paragraphs
from server_stub.coordinator.house import House, draw_id
from server_stub.coordinator.pseudonyms import network_bucket
from server_stub.coordinator.store import Transaction

__all__ = ["Report", "close", "open_reports", "report"]

MOST: Final = 4000
_RATE: Final = Rate(1 / 600.0, 5.0)
_ALL: Final = Rate(1 / 60.0, 500.0)
_LISTED: Final = 500


@dataclass(frozen=True, slots=True)
class Report:
    """One report, with the lab that it is about, if it names one."""

    report: str
    lab: str
    words: str
    created_s: float


def report(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    person: Person | None,
    address: str,
    lab: str,
    words: str,
) -> str:
    """Stores a report; its id.

    Raises:
        CoordinatorError: `words_*`, `coordinator_subject_unknown`, `coordinator_rate_limited`.
    """
    words = paragraphs("report", words, MOST, least=20)
    if lab and tx.row("SELECT 1 FROM lab WHERE lab = ?", lab) is None:
        raise CoordinatorError("coordinator_subject_unknown", kind="lab", name=lab[:64])
    subject = network_bucket(house.pseudonym_key, address, None)
    refused_s = take_stored(tx, now_s, "report", subject, _RATE, 1.0)
    if refused_s:
        raise CoordinatorError("coordinator_rate_limited", scope="network", wait_s=refused_s)
    # Networks are cheap; what all of them together may fill is bounded too.
    refused_s = take_stored(tx, now_s, "report_all", "", _ALL, 1.0)
    if refused_s:
        raise CoordinatorError("coordinator_rate_limited", scope="report", wait_s=refused_s)
    number = draw_id("report", rng)
    tx.execute(
        "INSERT INTO abuse_report (report, account, lab, words_report, created_s)"
        " VALUES (?, ?, ?, ?, ?)",
        number, person.account if person else None, lab or None, words, now_s,
    )  # fmt: skip
    return number


def open_reports(tx: Transaction) -> list[Report]:
    """The reports that nobody has closed, the oldest first."""
    return [
        Report(*row)
        for row in tx.rows(
            "SELECT report, COALESCE(lab.name, ''), words_report, abuse_report.created_s"
            " FROM abuse_report LEFT JOIN lab USING (lab) WHERE closed_s IS NULL"
            " ORDER BY abuse_report.created_s LIMIT ?",
            _LISTED,
        )
    ]


def close(tx: Transaction, now_s: float, operator_: Person, number: str) -> None:
    """An operator has dealt with a report.

    Raises:
        CoordinatorError: `operator_only`, `coordinator_subject_unknown`.
    """
    if not operator_.is_operator:
        raise CoordinatorError("operator_only")
    changed = tx.execute(
        "UPDATE abuse_report SET closed_s = ?, closed_by = ? WHERE report = ? AND closed_s IS NULL",
        now_s, operator_.account, number,
    )  # fmt: skip
    if changed == 0:
        raise CoordinatorError("coordinator_subject_unknown", kind="report", name=number[:64])
    audit.record(tx, now_s, operator_.account, "report_close", number)
