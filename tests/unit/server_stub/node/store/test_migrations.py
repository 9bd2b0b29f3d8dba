"""An older database becomes one of this version, whole or not at all."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpugoblin.errors import NodeError
from gpugoblin.graph.classes import CLASSES
from gpugoblin.graph.dtypes import RARE, Dtypes, in_class
from server_stub.node.store import migrations
from server_stub.node.store.schema import SCHEMA_VERSION
from server_stub.node.store.sqlite import connect, migrate

__all__: list[str] = []

HERE = Path(__file__).parent
JOB = (
    "insert into job(id, owner, name, state, graph, content, inputs, numeric_class, assurance,"
    " executor, constraints, priority, limits, speculative, plan, tasks, used, created_s)"
    " values(?, ?, ?, ?, 'g', 'c', '[]', 'float32', 'full', 'grid', '{}', ?, '', 0, '{}', 9, 2, ?)"
)
TASK = (
    "insert into task(public, job, number, state, executor, prio, affinity, graph, verify,"
    " verify_flops, flops, bytes_moved, memory_bound_bytes, min_memory_bytes, min_sandbox,"
    " slot_bytes, waits, consumers_left, since_s) values(?, ?, ?, ?, 'grid', ?,"
    " 0, 'g', '', 0, 0, 0, 7, 0, 0, 0, 0, 0, 0.0)"
)


def old_database(path: Path, version: int) -> None:
    """A database as an earlier version left it, with two users' work."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.executescript((HERE / f"schema_{version}.sql").read_text())
        connection.execute("insert into meta values('schema_version', ?)", (str(version),))
        connection.execute("insert into users(id, name, created_s) values('user_a', 'ann', 1.0)")
        connection.execute(
            "insert into token(hash, user_id, scopes, created_s)"
            " values('hash', 'user_a', 'read submit', 1.0)"
        )
        connection.execute(JOB, ("job_b", "bob", "late", "running", 5, 20.0))
        connection.execute(JOB, ("job_a", "ann", "early", "running", 0, 10.0))
        connection.execute(JOB, ("job_c", "ann", None, "done", 0, 30.0))
        for number, state in enumerate(("used", "used", "ready", "leased", "waiting")):
            connection.execute(TASK, (f"task_a{number}", "job_a", number, state, 0))
            connection.execute(TASK, (f"task_b{number}", "job_b", number, state, -5))
        connection.commit()


def shape(connection: sqlite3.Connection) -> dict[str, object]:
    """Every table by its columns, and every index by its text."""
    found: dict[str, object] = {}
    for kind, name, text in connection.execute(
        "select type, name, sql from sqlite_master where sql is not null"
    ):
        columns = connection.execute(f"pragma table_info({name})").fetchall()
        found[name] = columns if kind == "table" else text
    return found


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], sqlite3.Connection]]:
    made: list[sqlite3.Connection] = []

    def open_one(name: str) -> sqlite3.Connection:
        made.append(connect(tmp_path / name))
        return made[-1]

    yield open_one
    for connection in made:
        connection.close()


@pytest.mark.parametrize("version", range(migrations.OLDEST, SCHEMA_VERSION))
def test_an_older_database_gets_the_tables_of_a_new_one_and_keeps_its_rows(
    tmp_path: Path, opened: Callable[[str], sqlite3.Connection], version: int
) -> None:
    if not (HERE / f"schema_{version}.sql").exists():
        pytest.fail(f"freeze the text of version {version} beside this test")
    old_database(tmp_path / "old", version)
    new = opened("new")
    migrate(new)
    old = opened("old")
    with pytest.raises(NodeError) as caught:
        migrate(old)
    assert caught.value.code == "database_older"
    before, copy = migrations.upgrade(old, tmp_path / "old")
    assert before == version
    assert shape(old) == shape(new)
    migrate(old)
    assert old.execute("select name from users").fetchall() == [("ann",)]
    assert old.execute("select count(*) from task").fetchone() == (10,)
    # The copy is the old database, whole, for nobody else's eyes.
    assert copy == tmp_path / f"old.version-{version}"
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as kept:
        assert migrations.version_of(kept) == version
        assert kept.execute("pragma integrity_check").fetchone() == ("ok",)
        assert kept.execute("select count(*) from task").fetchone() == (10,)
    assert migrations.upgrade(old, tmp_path / "old") == (SCHEMA_VERSION, None)


def test_jobs_of_before_have_their_turns(
    tmp_path: Path, opened: Callable[[str], sqlite3.Connection]
) -> None:
    old_database(tmp_path / "old", 4)
    old = opened("old")
    migrations.upgrade(old, tmp_path / "old")
    lanes = dict(old.execute("select owner, number from lane"))
    jobs = old.execute("select id, lane, sequence from job order by sequence").fetchall()
    assert jobs == [("job_a", lanes["ann"], 1), ("job_b", lanes["bob"], 2),
                    ("job_c", lanes["ann"], 3)]  # fmt: skip
    # Tasks that are over too: a retry or a lost byte brings them back.
    turns = old.execute("select distinct job, lane, turn from task")
    assert set(turns) == {("job_a", lanes["ann"], 1), ("job_b", lanes["bob"], 2 - 5 * 2**40)}


def test_needs_of_before_are_those_of_now(
    tmp_path: Path, opened: Callable[[str], sqlite3.Connection]
) -> None:
    old_database(tmp_path / "old", 4)
    # float32 as value and operand, int32 as value, float64 for convolutions, and a rare operator.
    mask = 0b11 | 1 << 16 | 1 << (32 + 9) | 1 << 48
    with closing(sqlite3.connect(tmp_path / "old")) as before:
        before.execute("update task set dtypes = ? where job = 'job_a'", (mask,))
        before.execute("update task set dtypes = 2 where job = 'job_b'")
        before.execute("update job set numeric_class = 'exact' where id = 'job_b'")
        before.execute("insert into graph values('g', x'', '{}', ?)", (mask,))
        before.execute(
            "insert into device(key, owner, bucket, owner_age_days, seen_s, grant_exp_s, dtypes)"
            " values('d', 'o', 'b', 1, 0, 0, ?)", (1 << 16,),
        )  # fmt: skip
        before.commit()
    old = opened("old")
    migrations.upgrade(old, tmp_path / "old")
    needs = Dtypes.of(("float32", "int32"), ("float32",), ("float64",), rare=RARE).mask()
    assert old.execute("select dtypes from graph").fetchall() == [(needs,)]
    tasks = dict(old.execute("select job, dtypes from task"))
    whole = Dtypes.of(("int32",), (), ()).mask()
    assert tasks == {"job_a": in_class(needs, "float32"), "job_b": in_class(whole, "exact")}
    has = Dtypes.of((), ("float32",), (), classes=CLASSES).mask()
    assert old.execute("select dtypes from device").fetchall() == [(has,)]


def test_a_step_that_fails_leaves_the_old_version(
    tmp_path: Path, opened: Callable[[str], sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    old_database(tmp_path / "old", 4)
    old = opened("old")
    whole = shape(old)
    monkeypatch.setitem(
        migrations.STEPS, SCHEMA_VERSION, (*migrations.STEPS[SCHEMA_VERSION], "no statement")
    )
    with pytest.raises(NodeError) as caught:
        migrations.upgrade(old, tmp_path / "old")
    assert caught.value.code == "upgrade_failed"
    assert shape(old) == whole
    assert migrations.version_of(old) == 4
    monkeypatch.undo()
    assert migrations.upgrade(old, tmp_path / "old")[0] == 4


def test_without_a_copy_nothing_is_changed(
    tmp_path: Path, opened: Callable[[str], sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    old_database(tmp_path / "old", 4)
    old = opened("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NodeError, match="No space left"):
        migrations.upgrade(old, tmp_path / "old")
    assert migrations.version_of(old) == 4
    assert sorted(path.name for path in tmp_path.glob("old.version*")) == []


def test_newer_and_forgotten_versions_are_refused(
    tmp_path: Path, opened: Callable[[str], sqlite3.Connection]
) -> None:
    connection = opened("db")
    migrate(connection)
    for version, code in ((SCHEMA_VERSION + 1, "database_newer"), (3, "database_version")):
        connection.execute("update meta set value = ?", (str(version),))
        whole = shape(connection)
        with pytest.raises(NodeError) as caught:
            migrations.upgrade(connection, tmp_path / "db")
        assert caught.value.code == code
        assert shape(connection) == whole
    assert migrations.upgrade(opened("empty"), tmp_path / "empty") == (0, None)
