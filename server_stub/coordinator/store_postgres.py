"""The coordinator's facts in PostgreSQL, which several replicas may share.

Owns: transactions on a connection that is made again when it is lost, and what becomes of the
pieces then. Must not: know what the facts mean.

As in SQLite, pieces that arrive together share a commit, each in a savepoint of its own. Every
group holds one lock of the database from its begin to its commit, so groups of all replicas run one
after the other and no handler can race with another, whichever rows they touch (`READ COMMITTED`
then sees all that was committed before). A group that the database undid is run again. When the
connection is lost during a commit, the server is asked by the transaction's number what became of
it, so that nothing is done twice and nobody is told that nothing happened when something did.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import postgres
from server_stub.coordinator.dialects import placeholders
from server_stub.coordinator.store_writer import Piece, Row, Transaction, Value, Writer

__all__ = ["PATIENCE_S", "PostgresStore", "PostgresTransaction", "transact"]

R = TypeVar("R")

PATIENCE_S: Final = 10.0
"""How long a group is tried again while the database is away or undoes it."""

_SHORT_S: Final = 0.5
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0

_OWN: Final = (
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    psycopg.DataError,
    errors.InFailedSqlTransaction,
)


class PostgresTransaction:
    """A transaction on a psycopg connection that has already begun one."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._depth = 0

    def execute(self, sql: str, *values: Value) -> int:
        return int(self._connection.execute(placeholders(sql), values).rowcount)

    def row(self, sql: str, *values: Value) -> Row | None:
        found: Row | None = self._connection.execute(placeholders(sql), values).fetchone()
        return found

    def rows(self, sql: str, *values: Value) -> list[Row]:
        return list(self._connection.execute(placeholders(sql), values).fetchall())

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        self._depth += 1
        name = f"part_{self._depth}"
        self._connection.execute(f"SAVEPOINT {name}")
        try:
            yield
            self._connection.execute(f"RELEASE {name}")
        except BaseException:
            if not self._connection.closed:  # else everything is undone
                self._connection.execute(f"ROLLBACK TO {name}")
                self._connection.execute(f"RELEASE {name}")
            raise
        finally:
            self._depth -= 1


class PostgresStore:
    """The store in a PostgreSQL database, with a connection and a writer thread of its own.

    Raises:
        CoordinatorError: from the constructor as `postgres.open_database`.
    """

    def __init__(self, dsn: str) -> None:
        self._line = _Line(dsn, postgres.open_database(dsn))
        self._writer = Writer(lambda group: _commit_group(self._line, group), self._line.close)

    def submit(self, work: Callable[[Transaction], R]) -> Future[R]:
        return self._writer.submit(work)

    def close(self) -> None:
        self._writer.close()


def transact(dsn: str, work: Callable[[Transaction], R]) -> R:
    """Opens the database, runs `work` in one transaction and closes it: an operator's command.

    Raises:
        CoordinatorError: as `postgres.open_database`, and what `work` raises.
    """
    line = _Line(dsn, postgres.open_database(dsn))
    with contextlib.closing(line):
        piece = Piece(work, Future())
        _commit_group(line, [piece])
        result: R = piece.future.result()
        return result


class _Line:
    """A connection that is made again when it was lost."""

    def __init__(self, dsn: str, connection: Any) -> None:
        self.dsn = dsn
        self.is_down = False
        self._connection = connection

    def open(self) -> Any:
        """The connection, a new one if need be. Raises psycopg.Error while there is none."""
        if self._connection.closed:
            self._connection = postgres.connect(self.dsn)
        return self._connection

    def close(self) -> None:
        self._connection.close()


class _CommitLostError(Exception):
    """The connection was lost during a commit. `number` is the transaction's."""

    def __init__(self, number: str) -> None:
        super().__init__(number)
        self.number = number


def _commit_group(line: _Line, group: list[Piece]) -> None:
    """Runs a group in one transaction. When the database refuses it, each piece is tried alone,
    so that one piece that the database cannot take does not spoil the others."""
    try:
        _attempt(line, group)
    except psycopg.Error as cause:
        if len(group) > 1 and not postgres.concerns_all(cause):
            for piece in group:
                _commit_group(line, [piece])
            return
        _fail(group, postgres.translated(cause, line.dsn))
    except CoordinatorError as error:
        _fail(group, error)
    for piece in group:
        piece.settle()


def _fail(group: list[Piece], error: CoordinatorError) -> None:
    for piece in group:
        piece.error = error


def _attempt(line: _Line, group: list[Piece]) -> None:
    """Runs a group until it is committed.

    Raises:
        psycopg.Error: nothing of it was.
        CoordinatorError: `coordinator_outcome_unknown`: it may have been.
    """
    # While the database is away, requests that wait behind each other are refused soon.
    ends_s = time.monotonic() + (_SHORT_S if line.is_down else PATIENCE_S)
    pause_s = _FIRST_PAUSE_S
    while True:
        cause: psycopg.Error
        try:
            _run(line.open(), group)
            line.is_down = False
            return
        except _CommitLostError as lost:
            if _was_committed(line, lost.number, ends_s):
                return
            continue
        except psycopg.Error as refused:
            is_undone = (refused.sqlstate or "").startswith("40")
            if not is_undone and not postgres.is_gone(refused):
                raise
            cause = refused
        if time.monotonic() + pause_s > ends_s:
            line.is_down = postgres.is_gone(cause)
            raise cause
        pause_s = _pause(pause_s)


def _run(connection: Any, group: list[Piece]) -> None:
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    try:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (postgres.LOCK,))
        transaction = PostgresTransaction(connection)
        for piece in group:
            piece.run(transaction, _OWN, psycopg.Error)
        row = connection.execute("SELECT pg_current_xact_id_if_assigned()::text").fetchone()
        _commit(connection, row[0])
    except BaseException as cause:
        _undo(connection, cause)
        raise


def _undo(connection: Any, cause: BaseException) -> None:
    """Ends a transaction, or the connection, which ends it as well."""
    try:
        if not postgres.is_gone(cause):
            connection.execute("ROLLBACK")
            return
    except psycopg.Error:
        pass
    connection.close()


def _commit(connection: Any, number: str | None) -> None:
    """Commits. `number` is None when nothing was written, so that nothing can be done twice."""
    try:
        done = connection.execute("COMMIT")
    except psycopg.Error as cause:
        if postgres.is_gone(cause) and number is not None:
            raise _CommitLostError(number) from cause
        raise
    if done.statusmessage != "COMMIT":
        raise errors.InFailedSqlTransaction("the commit undid the transaction")


def _was_committed(line: _Line, number: str, ends_s: float) -> bool:
    """What became of a transaction whose commit was not answered.

    Raises:
        CoordinatorError: `coordinator_outcome_unknown`: the server did not come back in time, or
            does not know that number, as after a change to a replica that had not heard of it.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        status: str | None = "in progress"
        try:
            row = line.open().execute("SELECT pg_xact_status(%s::xid8)", (number,)).fetchone()
            status = row[0]
        except psycopg.Error as cause:
            if not postgres.is_gone(cause):
                status = None  # a number of the future: this server has not seen it
        if status in ("committed", "aborted"):
            return status == "committed"
        if status is None or time.monotonic() + pause_s > ends_s:
            raise CoordinatorError("coordinator_outcome_unknown")
        pause_s = _pause(pause_s)


def _pause(pause_s: float) -> float:
    """Waits, up to the given time, and returns the next."""
    time.sleep(random.uniform(0.5, 1.0) * pause_s)  # noqa: S311 - not a secret
    return min(_LONGEST_PAUSE_S, 2 * pause_s)
