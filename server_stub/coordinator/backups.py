"""Copies of the database in one file, and their restoring: the same file for both databases.

Owns: the form of a copy, which is an SQLite database with the coordinator's own tables whatever the
facts lie in. So a copy of SQLite can be restored into PostgreSQL and the other way round, its
schema has a version and strict types, and any SQLite program can look at it. Must not: touch a
database that holds something.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from gpugoblin.errors import CoordinatorError
from server_stub import sqlite_files
from server_stub.coordinator import audit, databases, ledger, store
from server_stub.coordinator.dialects import placeholders
from server_stub.coordinator.schema import COLUMNS
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.store_writer import Row

__all__ = ["ORDER", "backup", "restore"]

ORDER: Final = (
    "counter", "account", "device", "enrolment", "application", "lab", "card_grant", "receipt",
    "entry", "posting", "balance", "lab_day", "nonce", "rate_bucket", "audit", "login_code",
    "session", "mail", "abuse_report", "certificate", "team", "team_member",
)  # fmt: skip
"""The tables, each after those that it refers to."""

_BATCH: Final = 1000
_NUMBERED: Final = (("entry", "entry"), ("mail", "number"))


def backup(settings: Settings, target: Path) -> None:
    """A consistent copy of the database while it is in use. The keys are files to copy as well.

    Raises:
        CoordinatorError: `coordinator_exists`, or as `databases.open_store`.
    """
    if target.exists():
        raise CoordinatorError("coordinator_exists", path=target)
    try:
        if settings.database:
            _from_postgres(settings.database, target)
        else:
            _copy(databases.sqlite_file(settings), target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def restore(settings: Settings, source: Path) -> dict[str, int]:
    """Fills an empty place with a copy; how many rows of which table.

    A copy of an older program is brought to the current schema on the way; the file stays as it is.
    The ledger and the record are checked before anything is kept.

    Raises:
        CoordinatorError: `coordinator_exists` when the place is not empty, `coordinator_not_set_up`
            when there is no such file, `coordinator_schema_newer`, `coordinator_backup_wrong`, or
            as `databases.create`.
    """
    if not settings.database:
        file = databases.sqlite_file(settings)
        # The log of a lost database would be played into the restored one.
        for left in sorted(file.parent.glob(f"{file.name}*")):
            raise CoordinatorError("coordinator_exists", path=left)
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    between = settings.state_dir / "restoring.sqlite3"
    try:
        _copy(source, between)
        with contextlib.closing(store.open_database(between)) as connection:
            _check(connection)
            counts = _counts(connection)
            if settings.database:
                _into_postgres(connection, settings)
        if not settings.database:
            between.rename(databases.sqlite_file(settings))
    finally:
        for left in settings.state_dir.glob("restoring.sqlite3*"):
            left.unlink()
    return counts


def _copy(source: Path, target: Path) -> None:
    """Copies an SQLite database page by page, while others may use it."""
    if not source.exists():
        raise CoordinatorError("coordinator_not_set_up", path=source)
    try:
        with contextlib.closing(sqlite_files.read_only(source)) as opened:
            sqlite_files.copy_pages(opened, target)
    except (sqlite3.Error, OSError) as cause:
        raise CoordinatorError("coordinator_database_damaged", reason=cause) from cause


def _check(connection: sqlite3.Connection) -> None:
    reason = sqlite_files.fault(connection)
    if reason:
        raise CoordinatorError("coordinator_backup_wrong", reason=reason)
    transaction = store.SqliteTransaction(connection)
    if ledger.audit_ledger(transaction):
        raise CoordinatorError("coordinator_backup_wrong", reason="its ledger does not add up")
    broken = audit.verify_chain(transaction)
    if broken is not None:
        raise CoordinatorError(
            "coordinator_backup_wrong", reason=f"line {broken} of its record was changed"
        )


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    return {
        table: int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])  # noqa: S608
        for table in ORDER
    }


def _from_postgres(dsn: str, target: Path) -> None:
    databases.need_driver()
    import psycopg

    from server_stub.coordinator import postgres

    store.create(target)
    try:
        with (
            contextlib.closing(postgres.open_database(dsn)) as source,
            contextlib.closing(store.open_database(target)) as copy,
        ):
            source.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            copy.execute("BEGIN IMMEDIATE")
            _fill(lambda sql: _streamed(source, sql), copy.executemany)
            copy.execute("COMMIT")
            source.execute("COMMIT")
            copy.execute("PRAGMA journal_mode=DELETE")
    except psycopg.Error as cause:
        raise postgres.translated(cause, dsn) from cause
    except sqlite3.Error as cause:
        raise CoordinatorError("coordinator_database_full") from cause


def _into_postgres(source: sqlite3.Connection, settings: Settings) -> None:
    """Makes the tables and fills them, in one transaction."""
    databases.need_driver()
    import psycopg

    from server_stub.coordinator import postgres

    dsn = settings.database
    try:
        with contextlib.closing(postgres.connect(dsn)) as copy, copy.transaction():
            postgres.make_tables(copy, dsn)
            with copy.cursor() as cursor:
                _fill(
                    lambda sql: _batches(source.execute(sql)),
                    lambda sql, rows: cursor.executemany(placeholders(sql), rows),
                )
            for table, column in _NUMBERED:
                copy.execute(
                    "SELECT setval(pg_get_serial_sequence(%s, %s),"  # noqa: S608 - our words
                    f" (SELECT COALESCE(MAX({column}), 0) + 1 FROM {table}), false)",
                    (table, column),
                )
    except psycopg.Error as cause:
        raise postgres.translated(cause, dsn) from cause


def _fill(
    batches: Callable[[str], Iterable[list[Row]]], write: Callable[[str, list[Row]], Any]
) -> None:
    """Copies all tables; those of a new database hold nothing but the counters."""
    for table in ORDER:
        names = COLUMNS[table]
        marks = ", ".join("?" * len(names))
        columns = ", ".join(names)
        if table == "counter":
            write("DELETE FROM counter WHERE name <> ?", [("",)])
        for rows in batches(f"SELECT {columns} FROM {table}"):  # noqa: S608 - our words
            write(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)  # noqa: S608


def _streamed(source: Any, sql: str) -> Iterator[list[Row]]:
    """Rows of PostgreSQL by a cursor of the server's, so that no table lies in memory."""
    with source.cursor(name="copy") as cursor:
        cursor.execute(sql)
        yield from _batches(cursor)


def _batches(cursor: Any) -> Iterator[list[Row]]:
    while rows := cursor.fetchmany(_BATCH):
        yield rows
