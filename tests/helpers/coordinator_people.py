"""People who are signed in, for tests of handlers."""

from __future__ import annotations

from gpugoblin.ids import AccountId
from server_stub.coordinator.handlers.signin import Person
from tests.helpers.coordinator import Desk


def person(desk: Desk, name: str = "ann") -> Person:
    """The owner of an account that exists or is made."""
    row = desk.tx.row("SELECT account, created_s FROM account WHERE name = ?", name)
    if row is None:
        row = (desk.account(name), desk.now_s)
    desk.tx.execute(
        "UPDATE account SET mailbox = ? WHERE account = ?", f"{name}@example.org", row[0]
    )
    return Person(
        AccountId(row[0]),
        name,
        f"{name}@example.org",
        "contributor",
        "en",
        False,
        row[1],
        desk.now_s,
    )
