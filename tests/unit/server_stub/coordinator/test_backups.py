"""Copies of both databases, and their restoring into either."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.messages.receipt import ReceiptBatch
from server_stub.coordinator import backups, databases
from server_stub.coordinator.handlers import node, operator
from server_stub.coordinator.schema import COLUMNS
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.state import initialize
from server_stub.coordinator.store_writer import Transaction
from tests.helpers.coordinator import Desk

KINDS = ("sqlite", "postgres")


def used(tx: Transaction) -> None:
    """Some facts, a ledger and a record among them."""
    desk = Desk(tx)
    lab, device = desk.lab(), desk.device()
    batch = ReceiptBatch(lab.name, (lab.receipt(device, device.grant()),))
    desk.ask(node.receipts, lab.key, batch, "192.0.2.9")
    tx.execute(
        "INSERT INTO mail (mailbox, subject, words_letter, tries, due_s, until_s)"
        " VALUES ('a@b.example', 'é', '日', 0, 1, 2)"
    )


def rows(tx: Transaction) -> dict[str, list[object]]:
    return {
        table: sorted(tx.rows(f"SELECT {', '.join(names)} FROM {table}"), key=repr)  # noqa: S608
        for table, names in COLUMNS.items()
    }


def empty(tmp_path: Path, request: pytest.FixtureRequest, kind: str, name: str) -> Settings:
    given: dict[str, object] = {"state_dir": str(tmp_path / name)}
    if kind == "postgres":
        given["database"] = request.getfixturevalue("server").new_database()
    return Settings.of(given)


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.usefixtures("server")
def test_a_copy_while_in_use_is_restored_anywhere(
    tmp_path: Path, request: pytest.FixtureRequest, source: str, target: str
) -> None:
    first = empty(tmp_path, request, source, "first")
    databases.create(first)
    databases.transact(first, used)
    running = databases.open_store(first)
    try:
        backups.backup(first, tmp_path / "copy")
        running.submit(lambda tx: tx.execute("DELETE FROM mail")).result(10)
    finally:
        running.close()
    assert os.stat(tmp_path / "copy").st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["copy", "first"]
    second = empty(tmp_path, request, target, "second")
    counts = backups.restore(second, tmp_path / "copy")
    assert (counts["receipt"], counts["mail"], counts["posting"]) == (1, 1, 2)
    assert not (tmp_path / "second" / "restoring.sqlite3").exists()
    letter = "INSERT INTO mail VALUES (1, 'a@b.example', 'é', '日', 0, 1, 2)"
    databases.transact(first, lambda tx: tx.execute(letter))
    assert databases.transact(second, rows) == databases.transact(first, rows)

    def goes_on(tx: Transaction) -> int:
        found = tx.execute(
            "INSERT INTO mail (mailbox, subject, words_letter, tries, due_s, until_s)"
            " VALUES ('a@b.example', '', '', 0, 1, 2)"
        )
        operator.add_account(tx, 0.0, Desk(tx, seed=9).rng, "next")
        return found

    assert databases.transact(second, goes_on) == 1
    with pytest.raises(CoordinatorError) as caught:
        backups.restore(second, tmp_path / "copy")
    assert caught.value.code == "coordinator_exists"


def test_order_names_every_table() -> None:
    assert sorted(backups.ORDER) == sorted(COLUMNS)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    settings = initialize(tmp_path / "coordinator.toml", port=0)
    databases.transact(settings, used)
    backups.backup(settings, tmp_path / "copy")
    with pytest.raises(CoordinatorError) as caught:
        backups.backup(settings, tmp_path / "copy")
    assert caught.value.code == "coordinator_exists"
    with pytest.raises(CoordinatorError):
        backups.backup(settings, tmp_path / "no" / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE balance SET micro_units = 7", "coordinator_backup_wrong"),
        ("DROP TRIGGER audit_keeps_update; UPDATE audit SET actor = 'eve'",
         "coordinator_backup_wrong"),
        ("PRAGMA foreign_keys=OFF; DELETE FROM device", "coordinator_backup_wrong"),
        ("UPDATE counter SET value = 1000 WHERE name = 'schema'", "coordinator_schema_newer"),
    ],
)  # fmt: skip
def test_a_wrong_copy_changes_nothing(tmp_path: Path, copy: Path, change: str, code: str) -> None:
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        connection.executescript(change)
    other = Settings.of({"state_dir": str(tmp_path / "other")})
    with pytest.raises(CoordinatorError) as caught:
        backups.restore(other, copy)
    assert caught.value.code == code
    assert os.listdir(tmp_path / "other") == []


def test_the_log_of_a_lost_database_is_not_played_into_the_copy(tmp_path: Path, copy: Path) -> None:
    other = Settings.of({"state_dir": str(tmp_path / "other")})
    databases.sqlite_file(other).parent.mkdir()
    (tmp_path / "other" / "coordinator.sqlite3-wal").write_bytes(b"old")
    with pytest.raises(CoordinatorError) as caught:
        backups.restore(other, copy)
    assert caught.value.code == "coordinator_exists"


def test_a_file_that_is_none_or_no_database(tmp_path: Path) -> None:
    other = Settings.of({"state_dir": str(tmp_path / "other")})
    (tmp_path / "noise").write_bytes(b"noise " * 1000)
    for name, code in (
        ("none", "coordinator_not_set_up"),
        ("noise", "coordinator_database_damaged"),
    ):
        with pytest.raises(CoordinatorError) as caught:
            backups.restore(other, tmp_path / name)
        assert caught.value.code == code
    assert os.listdir(tmp_path / "other") == []
