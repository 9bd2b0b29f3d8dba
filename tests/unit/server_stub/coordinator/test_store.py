"""The store: one writer, group commit, each piece undone alone, clear refusals."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import store
from server_stub.coordinator.schema import VERSION
from server_stub.coordinator.store import SqliteStore, Transaction, create, open_database, transact

INSERT = "INSERT INTO account (account, name, created_s) VALUES (?, ?, 0)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "state" / "db.sqlite3"
    create(place)
    return place


@pytest.fixture
def running(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def add(name: str) -> Any:
    return lambda tx: tx.execute(INSERT, f"account_{name}", name)


def names(path: Path) -> list[str]:
    return [row[0] for row in transact(path, lambda tx: tx.rows("SELECT name FROM account"))]


def test_a_result_is_on_disk_before_anyone_hears_of_it(path: Path, running: SqliteStore) -> None:
    assert running.submit(add("a")).result(10) == 1
    assert names(path) == ["a"]
    mode = transact(path, lambda tx: tx.row("PRAGMA journal_mode"))
    assert mode == ("wal",)
    assert path.stat().st_mode & 0o777 == 0o600


def test_many_at_once_share_commits(path: Path, running: SqliteStore) -> None:
    gate = threading.Event()
    running.submit(lambda tx: gate.wait(10))
    commits: list[str] = []
    running._connection.set_trace_callback(
        lambda sql: commits.append(sql) if sql == "COMMIT" else None
    )
    futures = [running.submit(add(f"n{number}")) for number in range(200)]
    gate.set()
    assert [future.result(10) for future in futures] == [1] * 200
    assert len(commits) <= 3
    assert len(names(path)) == 200


def test_work_runs_in_order(running: SqliteStore) -> None:
    seen: list[int] = []
    futures = [running.submit(lambda tx, n=n: seen.append(n)) for n in range(50)]
    for future in futures:
        future.result(10)
    assert seen == list(range(50))


def test_a_piece_that_raises_is_undone_alone(path: Path, running: SqliteStore) -> None:
    gate = threading.Event()
    running.submit(lambda tx: gate.wait(10))

    def failing(tx: Transaction) -> None:
        add("b")(tx)
        raise CoordinatorError("device_unknown")

    def colliding(tx: Transaction) -> None:
        add("c")(tx)
        add("c")(tx)

    futures = [running.submit(work) for work in (add("a"), failing, colliding, add("d"))]
    gate.set()
    assert futures[0].result(10) == 1
    with pytest.raises(CoordinatorError):
        futures[1].result(10)
    with pytest.raises(sqlite3.IntegrityError):
        futures[2].result(10)
    assert futures[3].result(10) == 1
    assert names(path) == ["a", "d"]


def test_nested_parts_are_undone_alone(path: Path) -> None:
    def work(tx: Transaction) -> None:
        add("a")(tx)
        with pytest.raises(ZeroDivisionError), tx.nested():  # noqa: PT012 - what is undone
            add("b")(tx)
            with tx.nested():
                add("c")(tx)
            raise ZeroDivisionError
        with tx.nested():
            add("d")(tx)

    transact(path, work)
    assert names(path) == ["a", "d"]


def test_closing_finishes_what_was_submitted_and_refuses_the_rest(path: Path) -> None:
    opened = SqliteStore(path)
    futures = [opened.submit(add(f"n{number}")) for number in range(20)]
    opened.close()
    opened.close()
    assert all(future.result(0) == 1 for future in futures)
    with pytest.raises(CoordinatorError) as caught:
        opened.submit(add("late")).result(0)
    assert caught.value.code == "coordinator_stopping"


def test_a_locked_database(
    path: Path, running: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    running._connection.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CoordinatorError) as caught:
        running.submit(add("a")).result(10)
    assert caught.value.code == "coordinator_database_busy"
    monkeypatch.setattr(store, "BUSY_S", 0.05)
    with pytest.raises(CoordinatorError) as caught:
        transact(path, add("b"))
    assert caught.value.code == "coordinator_database_busy"
    other.execute("ROLLBACK")
    other.close()
    assert running.submit(add("c")).result(10) == 1
    assert names(path) == ["c"]


def test_a_full_disk(path: Path, running: SqliteStore) -> None:
    pages = running.submit(lambda tx: tx.row("PRAGMA page_count")).result(10)
    assert pages is not None
    running._connection.execute(f"PRAGMA max_page_count = {pages[0]}")
    gate = threading.Event()
    running.submit(lambda tx: gate.wait(10))

    def bulky(tx: Transaction) -> None:
        for number in range(500):
            add(f"b{number}")(tx)

    before, full, after = (running.submit(work) for work in (add("a"), bulky, add("z")))
    gate.set()
    with pytest.raises(CoordinatorError) as caught:
        full.result(10)
    assert caught.value.code == "coordinator_database_full"
    assert (before.result(10), after.result(10)) == (1, 1), "what still fits is not refused"
    assert names(path) == ["a", "z"]
    running._connection.execute("PRAGMA max_page_count = 1000000")
    running.submit(bulky).result(10)
    assert len(names(path)) == 502


def test_no_database_and_no_second_one(tmp_path: Path, path: Path) -> None:
    with pytest.raises(CoordinatorError) as caught:
        open_database(tmp_path / "none")
    assert caught.value.code == "coordinator_not_set_up"
    with pytest.raises(CoordinatorError) as caught:
        create(path)
    assert caught.value.code == "coordinator_exists"


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b""])
def test_a_damaged_database(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "db"
    place.write_bytes(content)
    with pytest.raises(CoordinatorError) as caught:
        open_database(place)
    assert caught.value.code == "coordinator_database_damaged"


def test_a_database_of_a_newer_program(path: Path) -> None:
    newer = VERSION + 1
    transact(
        path, lambda tx: tx.execute("UPDATE counter SET value = ? WHERE name = 'schema'", newer)
    )
    with pytest.raises(CoordinatorError) as caught:
        open_database(path)
    assert caught.value.code == "coordinator_schema_newer"
    assert (caught.value.fields["found"], caught.value.fields["known"]) == (newer, VERSION)


def test_an_older_database_is_brought_up_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = ("CREATE TABLE later (number INTEGER) STRICT", "INSERT INTO later VALUES (1)")
    monkeypatch.setattr(store, "MIGRATIONS", (*store.MIGRATIONS, step))
    monkeypatch.setattr(store, "VERSION", VERSION + 1)
    transact(path, add("a"))
    transact(path, add("b"))
    assert transact(path, lambda tx: tx.rows("SELECT number FROM later")) == [(1,)]
    assert names(path) == ["a", "b"]


def test_a_step_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ("CREATE TABLE later (number INTEGER) STRICT", "NONSENSE")
    with monkeypatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", (*store.MIGRATIONS, broken))
        patch.setattr(store, "VERSION", VERSION + 1)
        with pytest.raises(CoordinatorError):
            open_database(path)
    found = transact(
        path, lambda tx: tx.row("SELECT COUNT(*) FROM sqlite_master WHERE name='later'")
    )
    assert found == (0,)
