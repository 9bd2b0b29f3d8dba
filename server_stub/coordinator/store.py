"""Where the coordinator's facts lie: one writer, group commit, durable before it says so.

Owns: the store in SQLite. Must not: know what the facts mean. What handlers are written against is
in `store_writer`, the store in PostgreSQL in `store_postgres`.

Pieces of work that arrive together share one commit (`synchronous=FULL`), each inside a savepoint
of its own: one that raises is undone alone. Nobody hears of a result before the commit is on disk.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeVar

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator.dialects import SQLITE, statements
from server_stub.coordinator.schema import MIGRATIONS, VERSION
from server_stub.coordinator.store_writer import Piece, Row, Store, Transaction, Value, Writer

__all__ = [
    "Row",
    "SqliteStore",
    "SqliteTransaction",
    "Store",
    "Transaction",
    "Value",
    "create",
    "migrate",
    "open_database",
    "transact",
]

R = TypeVar("R")

BUSY_S: Final = 2.0
"""How long a locked database is waited for; the operator's commands hold it for milliseconds."""

_OWN: Final = (sqlite3.IntegrityError, sqlite3.ProgrammingError)


class SqliteTransaction:
    """A transaction on a connection that has already begun one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._depth = 0

    def execute(self, sql: str, *values: Value) -> int:
        return self._connection.execute(sql, values).rowcount

    def row(self, sql: str, *values: Value) -> Row | None:
        cursor = self._connection.execute(sql, values)
        found: Row | None = cursor.fetchone()
        cursor.close()
        return found

    def rows(self, sql: str, *values: Value) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        self._depth += 1
        name = f"part_{self._depth}"
        self._connection.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # a full disk ends the whole transaction
                self._connection.execute(f"ROLLBACK TO {name}")
                self._connection.execute(f"RELEASE {name}")
            raise
        else:
            self._connection.execute(f"RELEASE {name}")
        finally:
            self._depth -= 1


class SqliteStore:
    """The store in one SQLite file, with a writer thread of its own.

    Raises:
        CoordinatorError: from the constructor as `open_database`.
    """

    def __init__(self, path: Path) -> None:
        self._connection = open_database(path)
        self._writer = Writer(
            lambda group: _commit_group(self._connection, group), self._connection.close
        )

    def submit(self, work: Callable[[Transaction], R]) -> Future[R]:
        return self._writer.submit(work)

    def close(self) -> None:
        self._writer.close()


def _commit_group(connection: sqlite3.Connection, group: list[Piece]) -> None:
    """Runs a group in one transaction. When the database refuses it, each piece is tried alone,
    so that one piece that the database cannot take does not spoil the others."""
    try:
        _run(connection, group)
    except sqlite3.Error as cause:
        if len(group) > 1 and not _is_busy(cause):
            for piece in group:
                _commit_group(connection, [piece])
            return
        for piece in group:
            piece.error = _translated(cause)
    for piece in group:
        piece.settle()


def _run(connection: sqlite3.Connection, group: list[Piece]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        transaction = SqliteTransaction(connection)
        for piece in group:
            piece.run(transaction, _OWN, sqlite3.Error)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def create(path: Path) -> None:
    """Makes an empty database of the current schema.

    Raises:
        CoordinatorError: `coordinator_exists`, or `coordinator_database_*`.
    """
    if path.exists():
        raise CoordinatorError("coordinator_exists", path=path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        connection = _connect(path, create_it=True)
        path.chmod(0o600)
        with contextlib.closing(connection):
            _migrate(connection, 0)
    except sqlite3.Error as cause:
        raise _translated(cause) from cause


def open_database(path: Path) -> sqlite3.Connection:
    """A connection to an existing database, brought to the current schema.

    Raises:
        CoordinatorError: `coordinator_not_set_up`, `coordinator_schema_newer`,
            `coordinator_database_busy`, `coordinator_database_full`,
            `coordinator_database_damaged`.
    """
    if not path.exists():
        raise CoordinatorError("coordinator_not_set_up", path=path)
    connection: sqlite3.Connection | None = None
    try:
        connection = _connect(path, create_it=False)
        found = _version(connection)
        if found > VERSION:
            raise CoordinatorError("coordinator_schema_newer", found=found, known=VERSION)
        if found < VERSION:
            _migrate(connection, found)
    except sqlite3.Error as cause:
        if connection is not None:
            connection.close()
        raise _translated(cause) from cause
    except CoordinatorError:
        if connection is not None:
            connection.close()
        raise
    return connection


def migrate(path: Path) -> tuple[int, int]:
    """Brings a database to the current schema; its version before and after.

    Raises:
        CoordinatorError: as `open_database`.
    """
    if not path.exists():
        raise CoordinatorError("coordinator_not_set_up", path=path)
    try:
        with contextlib.closing(_connect(path, create_it=False)) as connection:
            before = _version(connection)
    except sqlite3.Error as cause:
        raise _translated(cause) from cause
    open_database(path).close()
    return before, VERSION


def transact(path: Path, work: Callable[[Transaction], R]) -> R:
    """Opens the database, runs `work` in one transaction and closes it: an operator's command.

    Raises:
        CoordinatorError: as `open_database`, and what `work` raises.
    """
    with contextlib.closing(open_database(path)) as connection:
        piece = Piece(work, Future())
        _commit_group(connection, [piece])
        result: R = piece.future.result()
        return result


def _connect(path: Path, *, create_it: bool) -> sqlite3.Connection:
    mode = "rwc" if create_it else "rw"
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM counter WHERE name = 'schema'").fetchone()
    return int(row[0])


def _migrate(connection: sqlite3.Connection, found: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        found = found and _version(connection)
        for step in MIGRATIONS[found:]:
            for statement in statements(step, SQLITE):
                connection.execute(statement)
        connection.execute("UPDATE counter SET value = ? WHERE name = 'schema'", (VERSION,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _is_busy(cause: sqlite3.Error) -> bool:
    return getattr(cause, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _translated(cause: sqlite3.Error) -> CoordinatorError:
    name = getattr(cause, "sqlite_errorname", "")
    if _is_busy(cause):
        error = CoordinatorError("coordinator_database_busy", waited_s=BUSY_S)
    elif name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC"):
        error = CoordinatorError("coordinator_database_full")
    else:
        error = CoordinatorError(
            "coordinator_database_damaged", reason=name or type(cause).__name__
        )
    error.__cause__ = cause
    return error
