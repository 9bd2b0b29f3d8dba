"""What the captain of a team may do: see its members, remove one, hand over, draw a new code.

Owns: the rights of a captain, looked at in the transaction of each act. A captain sees who the
members are, never who did how much. Must not: decide who becomes captain when one leaves (`teams`).
"""

from __future__ import annotations

import random

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import audit
from server_stub.coordinator.handlers import teams
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.house import draw_long_code
from server_stub.coordinator.store import Transaction

__all__ = ["hand_over", "is_captain", "members", "new_code", "remove"]


def is_captain(tx: Transaction, account: str) -> bool:
    """Whether the account is the captain of the team in which it is."""
    row = tx.row(
        "SELECT 1 FROM team JOIN team_member USING (team)"
        " WHERE account = ? AND until_s IS NULL AND captain = account",
        account,
    )
    return row is not None


def members(tx: Transaction, person: Person) -> tuple[str, ...]:
    """The names of the others in the person's team, for its captain; nothing for anybody else."""
    if not is_captain(tx, person.account):
        return ()
    return tuple(
        name
        for (name,) in tx.rows(
            "SELECT name FROM team_member JOIN account USING (account)"
            " WHERE team = ? AND until_s IS NULL AND account <> ? ORDER BY name",
            _team_of(tx, person), person.account,
        )
    )  # fmt: skip


def new_code(tx: Transaction, now_s: float, rng: random.Random, person: Person) -> None:
    """Draws a new code for the team; the old one lets nobody in any more.

    Raises:
        CoordinatorError: `team_captain_only`.
    """
    team = _team_of(tx, person)
    _draw(tx, rng, team)
    audit.record(tx, now_s, person.account, "team_code", team)


def remove(tx: Transaction, now_s: float, rng: random.Random, person: Person, name: str) -> None:
    """Ends the membership of another, and draws a new code: the old one is known to them.

    What they did stays with the team, as when they leave.

    Raises:
        CoordinatorError: `team_captain_only`, `coordinator_subject_unknown`.
    """
    team = _team_of(tx, person)
    account = _other(tx, person, team, name)
    teams.leave(tx, now_s, account, actor=person.account)
    _draw(tx, rng, team)


def hand_over(tx: Transaction, now_s: float, person: Person, name: str) -> None:
    """Makes another member the captain.

    Raises:
        CoordinatorError: `team_captain_only`, `coordinator_subject_unknown`.
    """
    team = _team_of(tx, person)
    account = _other(tx, person, team, name)
    tx.execute("UPDATE team SET captain = ? WHERE team = ?", account, team)
    audit.record(tx, now_s, person.account, "team_hand_over", account)


def _team_of(tx: Transaction, person: Person) -> str:
    row = tx.row(
        "SELECT team FROM team JOIN team_member USING (team)"
        " WHERE account = ? AND until_s IS NULL AND captain = account",
        person.account,
    )
    if row is None:
        raise CoordinatorError("team_captain_only")
    return str(row[0])


def _other(tx: Transaction, person: Person, team: str, name: str) -> str:
    """The account of another member; nobody learns whether somebody else has that name."""
    row = tx.row(
        "SELECT account FROM team_member JOIN account USING (account)"
        " WHERE team = ? AND until_s IS NULL AND name = ? AND account <> ?",
        team, name, person.account,
    )  # fmt: skip
    if row is None:
        raise CoordinatorError("coordinator_subject_unknown", kind="member", name=name[:64])
    return str(row[0])


def _draw(tx: Transaction, rng: random.Random, team: str) -> None:
    tx.execute("UPDATE team SET code = ? WHERE team = ?", draw_long_code(rng), team)
