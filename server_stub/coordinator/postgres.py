"""Connections to a PostgreSQL database: made, checked, brought to the current schema, named safely.

Owns: the settings of a session, the schema's steps, and what PostgreSQL's errors mean to us. Must
not: know what the facts mean, or show a password. psycopg is needed only where a DSN is set.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import psycopg
from psycopg import conninfo, errors
from psycopg.types.numeric import IntLoader

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import schema
from server_stub.coordinator.dialects import POSTGRES, statements

__all__ = [
    "LOCK",
    "LOCK_S",
    "concerns_all",
    "connect",
    "create",
    "is_gone",
    "make_tables",
    "migrate",
    "migrate_database",
    "open_database",
    "place_of",
    "translated",
]

LOCK: Final = 0x6770_7567_6F62
"""The advisory lock that every writer of this database holds until its commit."""

LOCK_S: Final = 10.0
"""How long another replica's group is waited for."""

_MIN_VERSION: Final = 150_000

_DEFAULTS: Final = {
    "application_name": "gpugoblin-coordinator",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "client_encoding": "UTF8",
}

_BUSY: Final = ("40", "55P03", "57014")
_GONE: Final = ("08", "25P03", "57P")
_NO_ENTRY: Final = ("28", "3D", "53")

_SESSION: Final = (
    ("lock_timeout", f"{int(LOCK_S * 1000)}ms"),
    # A replica whose machine stands still in the middle of a group must not stop the others.
    ("idle_in_transaction_session_timeout", "20s"),
)


def connect(dsn: str) -> Any:
    """A psycopg connection in autocommit mode: transactions are begun by statements.

    Raises:
        CoordinatorError: `coordinator_postgres_unfit`: an old server, or not in UTF-8.
        psycopg.Error: it cannot be reached, or the DSN is not one.
    """
    chosen = {**_DEFAULTS, **conninfo.conninfo_to_dict(dsn)}
    connection = psycopg.connect(**chosen, autocommit=True)
    try:
        connection.adapters.register_loader("numeric", IntLoader)  # sums of whole numbers
        for name, value in _SESSION:
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        # A user's stricter choice (`remote_apply`) is kept; a commit that may be lost is not.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def place_of(dsn: str) -> str:
    """Host and name of the database, without user and password."""
    try:
        given = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return "postgresql"
    host = given.get("host") or given.get("hostaddr") or "localhost"
    return f"postgresql at {host}, database {given.get('dbname') or given.get('user') or '-'}"


def create(dsn: str) -> None:
    """Makes the tables in an existing, empty database.

    Raises:
        CoordinatorError: `coordinator_exists`, or as `open_database`.
    """
    try:
        with connect(dsn) as connection, connection.transaction():
            make_tables(connection, dsn)
    except psycopg.Error as cause:
        raise translated(cause, dsn) from cause


def make_tables(connection: Any, dsn: str) -> None:
    """Makes the tables in the transaction that has begun.

    Raises:
        CoordinatorError: `coordinator_exists`.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
    if _version(connection) is not None:
        raise CoordinatorError("coordinator_exists", path=place_of(dsn))
    _steps(connection, 0)


def migrate_database(dsn: str) -> tuple[int, int]:
    """Brings a database to the current schema; its version before and after.

    Raises:
        CoordinatorError: as `open_database`.
    """
    try:
        with contextlib.closing(connect(dsn)) as connection:
            return migrate(connection, dsn)
    except psycopg.Error as cause:
        raise translated(cause, dsn) from cause


def open_database(dsn: str) -> Any:
    """A connection to an existing database, brought to the current schema.

    Raises:
        CoordinatorError: `coordinator_not_set_up`, `coordinator_schema_newer`,
            `coordinator_postgres_unfit`, `coordinator_database_*`.
    """
    try:
        connection = connect(dsn)
        try:
            migrate(connection, dsn)
        except BaseException:
            connection.close()
            raise
    except psycopg.Error as cause:
        raise translated(cause, dsn) from cause
    return connection


def migrate(connection: Any, dsn: str) -> tuple[int, int]:
    """Brings the schema up; its version before and after.

    Raises:
        CoordinatorError: `coordinator_not_set_up`, `coordinator_schema_newer`.
    """
    found = _version(connection)
    if found is None:
        raise CoordinatorError("coordinator_not_set_up", path=place_of(dsn))
    if found > schema.VERSION:
        raise CoordinatorError("coordinator_schema_newer", found=found, known=schema.VERSION)
    if found < schema.VERSION:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            # Another replica may have done it while this one waited for the lock.
            _steps(connection, _version(connection) or 0)
    return found, schema.VERSION


def is_gone(cause: BaseException) -> bool:
    """Whether the connection is lost: by the network, by the server, or not to be had now."""
    if not isinstance(cause, psycopg.Error):
        return False
    if isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None:
        return True
    return (cause.sqlstate or "").startswith(_GONE)


def concerns_all(cause: psycopg.Error) -> bool:
    """Whether it would meet any piece of work, so that trying them one by one is of no use."""
    undone = (cause.sqlstate or "").startswith("40")
    return undone or is_gone(cause) or isinstance(cause, errors.LockNotAvailable)


def translated(cause: psycopg.Error, dsn: str) -> CoordinatorError:
    """What an error of PostgreSQL means to whoever asked."""
    if (cause.sqlstate or "").startswith(_BUSY):
        error = CoordinatorError("coordinator_database_busy", waited_s=LOCK_S)
    elif isinstance(cause, errors.DiskFull):
        error = CoordinatorError("coordinator_database_full")
    elif cause.sqlstate is None or cause.sqlstate.startswith(_GONE + _NO_ENTRY):
        reason = str(cause).strip().partition("\n")[0][:300] or type(cause).__name__
        if isinstance(cause, psycopg.ProgrammingError):
            reason = "`database` is not a connection string of PostgreSQL"  # it may hold a password
        error = CoordinatorError(
            "coordinator_database_unreachable", place=place_of(dsn), reason=reason
        )
    else:
        error = CoordinatorError("coordinator_database_damaged", reason=type(cause).__name__)
    error.__cause__ = cause
    return error


def _check(connection: Any) -> None:
    version = connection.info.server_version
    if version < _MIN_VERSION:
        raise CoordinatorError(
            "coordinator_postgres_unfit", reason=f"it is version {version // 10_000}, not 15"
        )
    encoding = connection.execute("SELECT current_setting('server_encoding')").fetchone()[0]
    if encoding != "UTF8":
        raise CoordinatorError(
            "coordinator_postgres_unfit", reason=f"the database's encoding is {encoding}, not UTF8"
        )


def _version(connection: Any) -> int | None:
    if connection.execute("SELECT to_regclass('counter')").fetchone()[0] is None:
        return None
    row = connection.execute("SELECT value FROM counter WHERE name = 'schema'").fetchone()
    return None if row is None else int(row[0])


def _steps(connection: Any, found: int) -> None:
    for step in schema.MIGRATIONS[found:]:
        for statement in statements(step, POSTGRES):
            connection.execute(statement)
    connection.execute("UPDATE counter SET value = %s WHERE name = 'schema'", (schema.VERSION,))
