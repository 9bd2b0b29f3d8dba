"""Applications of researchers, their review, and the labs that come of them.

Owns: who may apply, decide, and register a lab node. A lab is public: its name and what it computes
in words stand on a page, and contributors choose by them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import LabId
from server_stub.coordinator import audit
from server_stub.coordinator.buckets import Rate, take_stored
from server_stub.coordinator.handlers import operator
from server_stub.coordinator.handlers.operator import NewLab
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.handlers.words import line, paragraphs
from server_stub.coordinator.house import draw_id
from server_stub.coordinator.mail import letters, outbox
from server_stub.coordinator.store import Transaction, Value

__all__ = [
    "Application",
    "PublicLab",
    "applications",
    "apply",
    "decide",
    "find",
    "labs",
    "own_labs",
    "register_lab",
    "suspend_lab",
    "withdraw",
]

MAX_WAITING: Final = 3
"""Applications of one account that may wait at once."""

_RATE: Final = Rate(1 / 21_600.0, 6.0)
"""Applications of one account, withdrawn ones too: each is a letter to every operator."""

MAX_LABS: Final = 5
"""Lab nodes that one approved application may register."""

LINE: Final = 120
SHORT: Final = 600
LONG: Final = 4000
_LISTED: Final = 500


@dataclass(frozen=True, slots=True)
class Application:
    """What a researcher asks for, and what became of it."""

    application: str
    account: str
    mailbox: str
    person: str
    affiliation: str
    project: str
    purpose: str
    ethics: str
    state: str
    created_s: float
    decided_s: float | None
    answer: str


@dataclass(frozen=True, slots=True)
class PublicLab:
    """A lab as anyone may see it."""

    lab: LabId
    name: str
    words: str
    created_s: float
    is_suspended: bool
    cards: int
    units: float


def apply(
    tx: Transaction, now_s: float, rng: random.Random, person: Person, given: dict[str, str]
) -> str:
    """Stores an application and tells the operators; its id.

    Args:
        given: `person`, `affiliation`, `project` (for the public), `purpose` (what is computed) and
            `ethics` (whose data, who allowed it).

    Raises:
        CoordinatorError: `words_*`, `application_crowded`, `coordinator_rate_limited`.
    """
    who = line("person", given.get("person", ""), LINE, least=2)
    affiliation = line("affiliation", given.get("affiliation", ""), LINE, least=2)
    project = paragraphs("project", given.get("project", ""), SHORT, least=20)
    purpose = paragraphs("purpose", given.get("purpose", ""), LONG, least=20)
    ethics = paragraphs("ethics", given.get("ethics", ""), LONG, least=10)
    row = tx.row(
        "SELECT COUNT(*) FROM application WHERE account = ? AND state = 'waiting'", person.account
    )
    if row is not None and row[0] >= MAX_WAITING:
        raise CoordinatorError("application_crowded", most=MAX_WAITING)
    refused_s = take_stored(tx, now_s, "apply", person.account, _RATE, 1.0)
    if refused_s:
        raise CoordinatorError("coordinator_rate_limited", scope="account", wait_s=refused_s)
    application = draw_id("application", rng)
    tx.execute(
        "INSERT INTO application (application, account, person, affiliation, words_project,"
        " words_purpose, words_ethics, state, created_s)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?)",
        application, person.account, who, affiliation, project, purpose, ethics, now_s,
    )  # fmt: skip
    audit.record(tx, now_s, person.account, "apply", application)
    for mailbox, language in tx.rows(
        "SELECT mailbox, language FROM account WHERE role = 'operator' AND mailbox IS NOT NULL"
    ):
        outbox.queue(tx, now_s, mailbox, *letters.application_waits(who, affiliation, language))
    return application


def withdraw(tx: Transaction, now_s: float, person: Person, application: str) -> None:
    """Takes back one's own application while it waits.

    Raises:
        CoordinatorError: `application_not_waiting`: also for another's application.
    """
    changed = tx.execute(
        "UPDATE application SET state = 'withdrawn', decided_s = ?"
        " WHERE application = ? AND account = ? AND state = 'waiting'",
        now_s, application, person.account,
    )  # fmt: skip
    if changed == 0:
        raise CoordinatorError("application_not_waiting")
    audit.record(tx, now_s, person.account, "withdraw", application)


def decide(
    tx: Transaction,
    now_s: float,
    operator_: Person,
    application: str,
    is_approved: bool,
    answer: str,
) -> None:
    """An operator's decision, told by letter.

    Raises:
        CoordinatorError: `operator_only`, `application_not_waiting`, `words_*`.
    """
    if not operator_.is_operator:
        raise CoordinatorError("operator_only")
    answer = paragraphs("answer", answer, LONG, least=0)
    state = "approved" if is_approved else "declined"
    changed = tx.execute(
        "UPDATE application SET state = ?, decided_s = ?, decided_by = ?, words_answer = ?"
        " WHERE application = ? AND state = 'waiting'",
        state, now_s, operator_.account, answer, application,
    )  # fmt: skip
    if changed == 0:
        raise CoordinatorError("application_not_waiting")
    audit.record(tx, now_s, operator_.account, f"application_{state}", application)
    row = tx.row(
        "SELECT mailbox, language FROM account JOIN application USING (account)"
        " WHERE application = ?",
        application,
    )
    if row is not None and row[0] is not None:
        subject, words = letters.application_decided(is_approved, answer, row[1])
        outbox.queue(tx, now_s, row[0], subject, words)


def find(tx: Transaction, application: str) -> Application:
    """One application. Raises CoordinatorError `coordinator_subject_unknown`."""
    found = _read(tx, "WHERE application = ?", application)
    if not found:
        raise CoordinatorError(
            "coordinator_subject_unknown", kind="application", name=application[:64]
        )
    return found[0]


def applications(
    tx: Transaction, *, account: str | None = None, state: str | None = None
) -> list[Application]:
    """Applications of an account, or in a state, or all; the oldest that wait first."""
    return _read(
        tx,
        "WHERE (CAST(? AS TEXT) IS NULL OR application.account = ?)"
        " AND (CAST(? AS TEXT) IS NULL OR state = ?)"
        " ORDER BY state <> 'waiting', application.created_s LIMIT ?",
        account, account, state, state, _LISTED,
    )  # fmt: skip


def register_lab(
    tx: Transaction, now_s: float, rng: random.Random, person: Person, application: str, new: NewLab
) -> LabId:
    """Registers a lab node for an approved application; its public words are the application's.

    Raises:
        CoordinatorError: `application_not_approved`, `labs_crowded`, and as `operator.add_lab`.
    """
    found = find(tx, application)
    if found.account != person.account or found.state != "approved":
        raise CoordinatorError("application_not_approved")
    row = tx.row("SELECT COUNT(*) FROM lab WHERE application = ?", application)
    if row is not None and row[0] >= MAX_LABS:
        raise CoordinatorError("labs_crowded", most=MAX_LABS)
    lab = operator.add_lab(tx, now_s, rng, new, actor=person.account)
    tx.execute(
        "UPDATE lab SET application = ?, words_public = ? WHERE lab = ?",
        application, found.project, lab,
    )  # fmt: skip
    return lab


def labs(tx: Transaction, now_s: float) -> list[PublicLab]:
    """All labs, those that compute most first."""
    return [
        PublicLab(LabId(lab), name, words, created_s, suspended_s is not None, cards, -micro / 1e6)
        for lab, name, words, created_s, suspended_s, cards, micro in tx.rows(
            "SELECT lab, name, words_public, created_s, suspended_s,"
            " (SELECT COUNT(*) FROM card_grant WHERE card_grant.lab = lab.lab AND expires_s > ?"
            "  AND revoked_s IS NULL AND released_s IS NULL),"
            " COALESCE((SELECT micro_units FROM balance WHERE holder = 'lab:' || lab.lab), 0)"
            " FROM lab ORDER BY 7, name",
            now_s,
        )
    ]


def own_labs(tx: Transaction, account: str) -> list[tuple[str, str, str, bool]]:
    """Id, name, address and suspension of the labs of one's own applications."""
    return [
        (lab, name, address, suspended_s is not None)
        for lab, name, address, suspended_s in tx.rows(
            "SELECT lab, name, address, suspended_s FROM lab JOIN application USING (application)"
            " WHERE account = ? ORDER BY name",
            account,
        )
    ]


def suspend_lab(
    tx: Transaction, now_s: float, operator_: Person, lab: str, is_suspended: bool
) -> None:
    """Ends or resumes a lab's work: no new grants while suspended, and those it has are revoked.

    Raises:
        CoordinatorError: `operator_only`, `coordinator_subject_unknown`.
    """
    if not operator_.is_operator:
        raise CoordinatorError("operator_only")
    changed = tx.execute(
        "UPDATE lab SET suspended_s = ? WHERE lab = ?", now_s if is_suspended else None, lab
    )
    if changed == 0:
        raise CoordinatorError("coordinator_subject_unknown", kind="lab", name=lab[:64])
    if is_suspended:
        operator.revoke_lab_grants(tx, now_s, LabId(lab))
    verb = "lab_suspend" if is_suspended else "lab_resume"
    audit.record(tx, now_s, operator_.account, verb, lab)


_SELECT: Final = (
    "SELECT application, application.account, COALESCE(mailbox, ''), person, affiliation,"
    " words_project, words_purpose, words_ethics, state, application.created_s, decided_s,"
    " words_answer FROM application JOIN account USING (account) "
)


def _read(tx: Transaction, rest: str, *values: Value) -> list[Application]:
    return [Application(*row) for row in tx.rows(_SELECT + rest, *values)]
