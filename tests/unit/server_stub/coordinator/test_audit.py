"""The audit record."""

from __future__ import annotations

import sqlite3

import pytest

from server_stub.coordinator import audit
from tests.helpers.coordinator import Desk


def fill(desk: Desk) -> None:
    for number in range(5):
        audit.record(desk.tx, 1000.5 + number, "operator", "approve", f"device_{number}")


def test_the_chain_holds(desk: Desk) -> None:
    assert audit.verify_chain(desk.tx) is None
    fill(desk)
    assert audit.verify_chain(desk.tx) is None


@pytest.mark.parametrize("sql", ["UPDATE audit SET actor = 'x'", "DELETE FROM audit"])
def test_lines_cannot_be_changed(desk: Desk, sql: str) -> None:
    fill(desk)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        desk.tx.execute(sql)


@pytest.mark.parametrize(
    ("sql", "broken_at"),
    [
        ("UPDATE audit SET subject = 'device_9' WHERE number = 3", 3),
        ("UPDATE audit SET actor = 'appr', action = 'oveoperator' WHERE number = 2", 2),
        ("UPDATE audit SET at_s = at_s + 1e-9 * 1000 WHERE number = 1", 1),
        ("DELETE FROM audit WHERE number = 2", 3),
        ("UPDATE audit SET link = 'x' WHERE number = 5", 5),
    ],
)
def test_changes_around_the_triggers_are_found(desk: Desk, sql: str, broken_at: int) -> None:
    fill(desk)
    for verb in ("update", "delete"):
        desk.tx.execute(f"DROP TRIGGER audit_keeps_{verb}")
    desk.tx.execute(sql)
    assert audit.verify_chain(desk.tx) == broken_at
