"""Teams: people who show their work together. One is joined by a code that its members pass on.

Owns: who is in which team, and what others see of it: its name, how many members it has, their work
together, and the names of those who chose to be listed. Never who did how much.

Work counts for the team in which its owner is when the coordinator books it (`ledger.book`), and
stays with that team.

A team with members has one captain among them: who made it, or whom that one named (`captains`).
When a captain leaves, it is who has been in for the longest; who joins an empty team is it, too.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Final

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import audit
from server_stub.coordinator.handlers.common import number
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.house import draw_id, draw_long_code, spelled
from server_stub.coordinator.ledger import MICRO
from server_stub.coordinator.store import Transaction

__all__ = ["Team", "code_of", "create", "find", "forget", "join", "leave", "own", "ranked"]

MAX_MEMBERS: Final = 1000
_LISTED: Final = 200
_NAME: Final = re.compile(r"[a-z0-9._-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Team:
    """A team as anyone may see it. `names` are those of members who chose to be listed."""

    name: str
    created_s: float
    members: int
    units: float
    names: tuple[str, ...] = ()


def create(
    tx: Transaction, now_s: float, rng: random.Random, person: Person, name: str
) -> str:  # fmt: skip
    """A new team with the person in it; its id.

    Raises:
        CoordinatorError: `coordinator_name_malformed`, `coordinator_name_taken`, `team_joined`.
    """
    if _NAME.fullmatch(name) is None:
        raise CoordinatorError("coordinator_name_malformed", kind="team", name=name[:80])
    _need_none(tx, person)
    if tx.row("SELECT 1 FROM team WHERE name = ?", name) is not None:
        raise CoordinatorError("coordinator_name_taken", kind="team", name=name)
    team = draw_id("team", rng)
    tx.execute(
        "INSERT INTO team (team, name, code, created_s) VALUES (?, ?, ?, ?)",
        team, name, draw_long_code(rng), now_s,
    )  # fmt: skip
    _enter(tx, now_s, person, team)
    audit.record(tx, now_s, person.account, "team_create", team)
    return team


def join(tx: Transaction, now_s: float, person: Person, code: str) -> None:
    """Makes the person a member of the team with that code, in any spelling.

    Raises:
        CoordinatorError: `team_joined`, `team_code_unknown`, `team_full`.
    """
    _need_none(tx, person)
    row = tx.row("SELECT team FROM team WHERE code = ?", spelled(code))
    if row is None:
        raise CoordinatorError("team_code_unknown")
    held = number(tx, "SELECT COUNT(*) FROM team_member WHERE team = ? AND until_s IS NULL", row[0])
    if held >= MAX_MEMBERS:
        raise CoordinatorError("team_full", most=MAX_MEMBERS)
    _enter(tx, now_s, person, row[0])
    audit.record(tx, now_s, person.account, "team_join", row[0])


def leave(tx: Transaction, now_s: float, account: str, actor: str = "") -> bool:
    """Ends a membership; False where there was none. A team that is left with nothing ends.

    Args:
        actor: who ends it, where that is not the account itself.
    """
    row = tx.row("SELECT team FROM team_member WHERE account = ? AND until_s IS NULL", account)
    if row is None:
        return False
    team = row[0]
    tx.execute(
        "UPDATE team_member SET until_s = ? WHERE account = ? AND until_s IS NULL", now_s, account
    )
    if actor:
        audit.record(tx, now_s, actor, "team_remove", account)
    else:
        audit.record(tx, now_s, account, "team_leave", team)
    _see_to_captain(tx, team)
    used = number(
        tx,
        "SELECT COUNT(*) FROM team_member WHERE team = ? AND (until_s IS NULL OR micro_units > 0)",
        team,
    )
    if not used:
        _end(tx, team)
    return True


def forget(tx: Transaction, now_s: float, account: str) -> None:
    """Ends the membership of an account that is deleted, and each team that was of it alone.

    The name of such a team may say who the person was, and its sum is of nobody else.
    """
    leave(tx, now_s, account)
    for (team,) in tx.rows("SELECT team FROM team_member WHERE account = ?", account):
        others = number(
            tx,
            "SELECT COUNT(*) FROM team_member JOIN account USING (account)"
            " WHERE team = ? AND account <> ? AND closed_s IS NULL"
            " AND (until_s IS NULL OR micro_units > 0)",
            team, account,
        )  # fmt: skip
        if not others:
            _end(tx, team)


def _see_to_captain(tx: Transaction, team: str) -> None:
    """Gives a team whose captain is not in it another one, if there is anybody."""
    tx.execute(
        "UPDATE team SET captain = (SELECT account FROM team_member WHERE team = ?"
        " AND until_s IS NULL ORDER BY since_s, account LIMIT 1) WHERE team = ? AND NOT EXISTS"
        " (SELECT 1 FROM team_member WHERE team = ? AND account = captain AND until_s IS NULL)",
        team, team, team,
    )  # fmt: skip


def _end(tx: Transaction, team: str) -> None:
    tx.execute("DELETE FROM team_member WHERE team = ?", team)
    tx.execute("DELETE FROM team WHERE team = ?", team)


def own(tx: Transaction, account: str) -> Team | None:
    """The team of an account."""
    row = tx.row(
        "SELECT name FROM team JOIN team_member USING (team) WHERE account = ? AND until_s IS NULL",
        account,
    )
    return None if row is None else find(tx, row[0])


def code_of(tx: Transaction, account: str) -> str:
    """What lets others into the account's team; "" when it is in none."""
    row = tx.row(
        "SELECT code FROM team JOIN team_member USING (team) WHERE account = ? AND until_s IS NULL",
        account,
    )
    return "" if row is None else str(row[0])


def find(tx: Transaction, name: str) -> Team:
    """The team of that name.

    Raises:
        CoordinatorError: `coordinator_subject_unknown`.
    """
    found = _read(tx, "WHERE team.name = ?", name)
    if not found:
        raise CoordinatorError("coordinator_subject_unknown", kind="team", name=name[:64])
    one = found[0]
    names = tx.rows(
        "SELECT account.name FROM team JOIN team_member USING (team) JOIN account USING (account)"
        " WHERE team.name = ? AND until_s IS NULL AND is_listed = 1 AND closed_s IS NULL"
        " ORDER BY account.name LIMIT ?",
        name, _LISTED,
    )  # fmt: skip
    return Team(
        one.name, one.created_s, one.members, one.units, tuple(member for (member,) in names)
    )


def ranked(tx: Transaction, limit: int) -> list[Team]:
    """The teams with the most work."""
    return _read(tx, "", limit=limit)


def _read(tx: Transaction, where: str, *values: str, limit: int = 1) -> list[Team]:
    return [
        Team(name, created_s, members, micro / MICRO)
        for name, created_s, members, micro in tx.rows(
            "SELECT name, created_s,"  # noqa: S608 - our words
            " SUM(CASE WHEN until_s IS NULL THEN 1 ELSE 0 END), SUM(micro_units)"
            f" FROM team JOIN team_member USING (team) {where}"
            " GROUP BY team.team, name, created_s ORDER BY 4 DESC, name LIMIT ?",
            *values, limit,
        )
    ]  # fmt: skip


def _need_none(tx: Transaction, person: Person) -> None:
    if code_of(tx, person.account):
        raise CoordinatorError("team_joined")


def _enter(tx: Transaction, now_s: float, person: Person, team: str) -> None:
    tx.execute(
        "INSERT INTO team_member (team, account, since_s, micro_units) VALUES (?, ?, ?, 0)"
        " ON CONFLICT (team, account) DO UPDATE SET since_s = excluded.since_s, until_s = NULL",
        team, person.account, now_s,
    )  # fmt: skip
    _see_to_captain(tx, team)
