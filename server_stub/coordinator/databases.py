"""Which database a configuration names, and what is done with it: made, opened, worked in.

Owns: the choice between SQLite in the state directory and PostgreSQL by `database`. Must not:
import the driver of PostgreSQL unless it is named.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import store
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.store_writer import Store, Transaction

__all__ = [
    "check_there",
    "create",
    "migrate",
    "need_driver",
    "open_store",
    "sqlite_file",
    "transact",
]

R = TypeVar("R")


def sqlite_file(settings: Settings) -> Path:
    """The file of the database, where SQLite is used."""
    return settings.state_dir / "coordinator.sqlite3"


def create(settings: Settings) -> None:
    """Makes the tables: in a new file, or in an empty PostgreSQL database that exists.

    Raises:
        CoordinatorError: `coordinator_exists`, `coordinator_database_*`,
            `coordinator_postgres_missing`, `coordinator_postgres_unfit`.
    """
    if not settings.database:
        store.create(sqlite_file(settings))
        return
    need_driver()
    from server_stub.coordinator import postgres

    postgres.create(settings.database)
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_there(settings: Settings) -> None:
    """That a file of SQLite exists; PostgreSQL is asked when it is opened.

    Raises:
        CoordinatorError: `coordinator_not_set_up`.
    """
    if not settings.database and not sqlite_file(settings).exists():
        raise CoordinatorError("coordinator_not_set_up", path=sqlite_file(settings))


def open_store(settings: Settings) -> Store:
    """The store to serve from, brought to the current schema.

    Raises:
        CoordinatorError: `coordinator_not_set_up`, `coordinator_schema_newer`,
            `coordinator_database_*`, `coordinator_postgres_missing`, `coordinator_postgres_unfit`.
    """
    if not settings.database:
        return store.SqliteStore(sqlite_file(settings))
    need_driver()
    from server_stub.coordinator.store_postgres import PostgresStore

    return PostgresStore(settings.database)


def transact(settings: Settings, work: Callable[[Transaction], R]) -> R:
    """Runs an operator's command in one transaction, beside running servers.

    Raises:
        CoordinatorError: as `open_store`, and what `work` raises.
    """
    if not settings.database:
        return store.transact(sqlite_file(settings), work)
    need_driver()
    from server_stub.coordinator import store_postgres

    return store_postgres.transact(settings.database, work)


def migrate(settings: Settings) -> tuple[int, int]:
    """Brings the database to this program's schema; its version before and after.

    Servers do so by themselves when they start. On PostgreSQL the step waits for the groups of
    running servers, which go on with the newer tables.

    Raises:
        CoordinatorError: as `open_store`.
    """
    if not settings.database:
        return store.migrate(sqlite_file(settings))
    need_driver()
    from server_stub.coordinator import postgres

    return postgres.migrate_database(settings.database)


def need_driver() -> None:
    """That psycopg is there. Raises CoordinatorError `coordinator_postgres_missing`."""
    try:
        import psycopg  # noqa: F401
    except ImportError as cause:
        raise CoordinatorError("coordinator_postgres_missing") from cause
