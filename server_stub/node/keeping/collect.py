"""What no row names, what a crash left, and caches over their limits: `gpugoblin node gc`.

Owns: finding it and deleting it beside a running node. A file is deleted under the database's write
lock, after a second look at the rows, so that no transaction can begin to name it meanwhile; and
only when it is an hour old, since a worker makes a file before its row. Must not: touch anything
outside the state directory.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gpugoblin.blobs.store import BlobStore
from server_stub.node import presence, results
from server_stub.node.keeping import backup
from server_stub.node.keeping.check import ASIDE
from server_stub.node.settings import NodeSettings
from server_stub.node.state import retention
from server_stub.node.state.words import Rules, Step
from server_stub.node.store.sqlite import SqliteTx, connect

__all__ = ["OLD_S", "Free", "caches", "collect", "find"]

OLD_S: Final = 3600.0

Kind = Literal["blob", "array", "upload", "damaged", "backup", "cache"]


@dataclass(frozen=True, slots=True)
class Free:
    """Something that nobody needs. `nbytes`: what it takes on the disk."""

    kind: Kind
    path: Path
    nbytes: int


def find(settings: NodeSettings, now_s: float | None = None) -> list[Free]:
    """What may go. Changes nothing.

    Raises:
        NodeError: `database_missing`, `database_newer` and the like: what a database that is not
            known names is not known either.
        sqlite3.Error: the database is held by another program, or damaged.
    """
    presence.require_current(settings)
    before_s = (time.time() if now_s is None else now_s) - OLD_S
    with contextlib.closing(connect(settings.database, read_only=True)) as connection:
        return [free for free in _candidates(settings, connection) if _is_old(free, before_s)]


def collect(settings: NodeSettings, found: list[Free]) -> list[Free]:
    """Deletes what `find` found and what is still not named; returns what went.

    Raises:
        sqlite3.Error: the database is held by another program, or damaged.
    """
    store = BlobStore(settings.blob_root, 0)
    gone: list[Free] = []
    with contextlib.closing(connect(settings.database)) as connection:
        for free in found:
            connection.execute("begin immediate")
            try:
                if _is_needed(connection, free):
                    continue
                if _delete(settings, store, free):
                    gone.append(free)
            finally:
                connection.execute("rollback")
    return gone


def caches(settings: NodeSettings, limits: retention.Limits, *, delete: bool) -> list[Free]:
    """Cached results over the limits; with `delete` they go, beside a running node, too.

    A crash in between leaves a file that no row names.

    Raises:
        NodeError, sqlite3.Error: as `find`.
    """
    presence.require_current(settings)
    with contextlib.closing(connect(settings.database)) as connection:
        connection.execute("begin immediate")
        try:
            step = Step(SqliteTx(connection), time.time(), random.SystemRandom(), Rules(""))
            rows = retention.collect(step, limits)
            found = [Free("cache", Path(row.path), _size(Path(row.path))) for row in rows]
            connection.execute("commit" if delete else "rollback")
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
    if delete:
        results.discard(rows, finished=True)
    return found


def _candidates(settings: NodeSettings, connection: sqlite3.Connection) -> Iterator[Free]:
    for name in BlobStore(settings.blob_root, 0).names():
        place = settings.blob_root / "blobs" / name[:2] / name
        yield from _unneeded(connection, "blob", place)
    for path in settings.arrays_root.glob("*"):
        yield from _unneeded(connection, "array", path)
    for path in (settings.blob_root / "parts").iterdir():
        yield from _unneeded(connection, "upload", path)
    for place in (settings.state / ASIDE).glob("*"):
        yield from _unneeded(connection, "damaged", place)
    staging = settings.state / backup.STAGING
    if staging.exists():
        yield from _unneeded(connection, "backup", staging)


def _unneeded(connection: sqlite3.Connection, kind: Kind, path: Path) -> Iterator[Free]:
    try:
        free = Free(kind, path, _size(path))
    except FileNotFoundError:
        return
    if not _is_needed(connection, free):
        yield free


def _is_needed(connection: sqlite3.Connection, free: Free) -> bool:
    name = free.path.name
    if free.kind == "blob":
        query, words = "select 1 from blob where hash = ?", (name,)
    elif free.kind == "array":
        query = "select 1 from array where ours = 1 and (path like ? or final_path like ?)"
        words = (f"%/{name}", f"%/{name}")  # type: ignore[assignment]  # as many as marks
    elif free.kind == "upload":
        lease = free.path.stem.rpartition("-")[0]
        query, words = "select 1 from lease where id = ? and state = 'committed'", (lease,)
    else:
        return False
    return connection.execute(query, words).fetchone() is not None


def _is_old(free: Free, before_s: float) -> bool:
    try:
        return free.path.stat().st_mtime < before_s
    except FileNotFoundError:
        return False


def _size(path: Path) -> int:
    """What it takes on the disk."""
    if path.is_dir():
        return sum(each.stat().st_blocks * 512 for each in path.rglob("*") if each.is_file())
    return path.stat().st_blocks * 512


def _delete(settings: NodeSettings, store: BlobStore, free: Free) -> bool:
    """Whether it went: links of a backup that is being made stay."""
    if free.kind == "blob":
        return store.delete(free.path.name)
    if free.kind == "backup":
        backup.sweep(settings)
    elif free.path.is_dir():
        shutil.rmtree(free.path)
    else:
        free.path.unlink(missing_ok=True)
    return not free.path.exists()
