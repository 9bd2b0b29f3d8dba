"""Whether a node's database is there, or lost while what it named is still there.

Owns: that a new database is made only where there is nothing that an old one knew, for a node
deletes what its database does not name; and that nobody makes one by looking, since opening a
database that is not there makes it. Must not: change anything.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from gpugoblin.errors import NodeError
from server_stub.node.settings import NodeSettings
from server_stub.node.store import migrations
from server_stub.node.store.sqlite import connect

__all__ = ["refuse_if_lost", "require_current"]


def refuse_if_lost(settings: NodeSettings) -> None:
    """Before a database is opened that may be made by it.

    Raises:
        NodeError: `database_missing`, `database_version`. sqlite3.Error.
    """
    kept = _holds(settings.arrays_root, "*") or _holds(settings.blob_root, "blobs/??/*")
    if kept and not _version(settings.database):
        raise _missing(settings)


def require_current(settings: NodeSettings) -> None:
    """For whoever needs its rows.

    Raises:
        NodeError: `database_missing`, `database_older`, `database_newer`, `database_version`.
        sqlite3.Error: it cannot be read.
    """
    version = _version(settings.database)
    if not version:
        raise _missing(settings)
    migrations.refuse_unless_current(version)


def _version(path: Path) -> int:
    """Of the database; 0 where there is none, or one without a table."""
    if not path.exists() or path.stat().st_size == 0:
        return 0
    with closing(connect(path)) as connection:
        return migrations.version_of(connection)


def _holds(root: Path, pattern: str) -> bool:
    return next(root.glob(pattern), None) is not None


def _missing(settings: NodeSettings) -> NodeError:
    return NodeError("database_missing", path=settings.database, arrays=settings.arrays_root)
