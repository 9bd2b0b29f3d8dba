"""SQLite files as files: a copy of one in use, and whether one is whole.

Owns: what both servers need for their backups. Must not: know a table.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

__all__ = ["copy_pages", "fault", "read_only"]


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that only reads, beside others that write. Raises sqlite3.Error."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


def copy_pages(source: sqlite3.Connection, target: Path) -> None:
    """Copies what `source` sees into one file that is whole by itself, mode 0600.

    A source inside a read transaction is copied as of that transaction, whatever others write.

    Raises:
        sqlite3.Error, OSError: the target may be left half made.
    """
    with contextlib.closing(sqlite3.connect(target)) as copy:
        target.chmod(0o600)
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")


def fault(connection: sqlite3.Connection) -> str:
    """Why a database cannot be trusted; empty when it can. Raises sqlite3.Error."""
    if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        return "a page of it is damaged"
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        return "a row refers to none"
    return ""
