"""Every byte that the node keeps, against its hash: `gpugoblin node fsck`.

Owns: reading blobs chunk by chunk and verified parts of arrays box by box, beside a running node,
and setting damaged blobs aside. Must not: change a row (`state.lost` does).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import StoreError
from server_stub.node import arrays as files
from server_stub.node.items import array_file
from server_stub.node.settings import NodeSettings
from server_stub.node.state import arrays, tasks
from server_stub.node.store.sqlite import SqliteTx, connect
from server_stub.node.work import Box

__all__ = ["Findings", "check", "set_aside"]

ASIDE: Final = "damaged"


@dataclass(slots=True)
class Findings:
    """What was looked at, and what is not as it was stored.

    Args:
        blobs: name -> the code of what is wrong.
        results: (task, slot) -> the file that does not hold what was verified there.
    """

    looked_at: int = 0
    nbytes: int = 0
    blobs: dict[str, str] = field(default_factory=dict)
    results: dict[tuple[int, int], str] = field(default_factory=dict)


def check(settings: NodeSettings) -> Findings:
    """Reads everything. A node may run: what it deletes meanwhile is not called lost.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    found = Findings()
    store = BlobStore(settings.blob_root, 0)
    with contextlib.closing(connect(settings.database, read_only=True)) as connection:
        names = [row[0] for row in connection.execute("select hash from blob where refs > 0")]
        for name in names:
            code = _blob(store, name, found)
            if code and _is_held(connection, name):
                found.blobs[name] = code
        folds = connection.execute(
            "select f.task, f.slot, f.box, f.blob, a.id from fold f join array a"
            " on a.job = f.job and a.number = f.array where a.path != ''"
            " and (a.ours = 1 or a.complete = 0)"
        ).fetchall()
        for task, slot, box, name, array in folds:
            path = _result(connection, array, box, name, found)
            if path and _is_used(connection, task, slot, array):
                found.results[task, slot] = path
    return found


def _blob(store: BlobStore, name: str, found: Findings) -> str:
    """The code of what is wrong with a blob; empty when it is whole."""
    found.looked_at += 1
    try:
        with store.open_read(name) as reader:
            found.nbytes += reader.nbytes
            for _ in reader.pieces():
                pass
    except StoreError as error:
        return error.code
    return ""


def _is_held(connection: sqlite3.Connection, name: str) -> bool:
    held = connection.execute("select 1 from blob where hash = ? and refs > 0", (name,))
    return held.fetchone() is not None


def _is_used(connection: sqlite3.Connection, task: int, slot: int, array: str) -> bool:
    """Whether the record is still there: the job may have been deleted while we read."""
    return connection.execute(
        "select 1 from fold f, array a where f.task = ? and f.slot = ? and a.id = ?",
        (task, slot, array),
    ).fetchone() is not None  # fmt: skip


def _result(
    connection: sqlite3.Connection, array: str, box: str, name: str, found: Findings
) -> str:
    """The path of an array that does not hold a verified part; empty when it does."""
    row = arrays.load(SqliteTx(connection), array)
    if row is None:
        return ""
    found.looked_at += 1
    file, region = array_file(row), tasks.read_box(box)
    place = Box(region.start, region.stop)
    try:
        found.nbytes += files.box_bytes(file, place)
        is_whole = files.box_hash(file, place) == name
    except StoreError:
        # Its name may have become the final one while we read.
        again = arrays.load(SqliteTx(connection), array)
        return "" if again is not None and again.path != row.path else row.path
    return "" if is_whole else row.path


def set_aside(settings: NodeSettings, blob: str) -> Path | None:
    """Moves a damaged blob out of the store, for whoever wants to look; None: it was gone."""
    store = BlobStore(settings.blob_root, 0)
    aside = settings.state / ASIDE
    aside.mkdir(mode=0o700, exist_ok=True)
    place = aside / blob
    with contextlib.suppress(FileNotFoundError):
        place.unlink()
    try:
        os.link(store.path(blob), place)
    except FileNotFoundError:
        store.delete(blob)
        return None
    store.delete(blob)
    return place
