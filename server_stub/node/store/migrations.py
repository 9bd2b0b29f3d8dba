"""How a database of an earlier version becomes one of this version.

Owns: one numbered step for each change of the schema since version 4 (earlier ones were never in
use), and the order in which they run: all in one transaction, after a copy has been written beside
the database. Must not: be clever. A step that has been released is never changed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpugoblin.errors import NodeError
from server_stub.node.store.protocol import Tx
from server_stub.node.store.schema import SCHEMA_VERSION, STATEMENTS

__all__ = ["OLDEST", "STEPS", "create", "refuse_unless_current", "upgrade", "version_of"]

OLDEST: Final = 4

_NEEDS: Final = (
    "(dtypes & 1023) | (((dtypes >> 16) & 1023) << 12) | (((dtypes >> 32) & 1023) << 24)"
    " | (((dtypes >> 48) & 1) * (32767 << 42))"
)
"""The bits of version 5 from those of version 4, which had more places for dtypes and one bit for
all operators that not every engine has."""

STEPS: Final[Mapping[int, tuple[str, ...]]] = {
    5: (
        # Whose turn it is: a lane for each user, and a job's place in the user's own order.
        "create table lane(number integer primary key, owner text not null unique,"
        " weight integer not null default 1)",
        "create table fair(executor text not null, lane integer not null, tag integer not null,"
        " stamp integer not null, primary key(executor, lane)) without rowid",
        "alter table job add column lane integer not null default 0",
        "alter table job add column sequence integer not null default 0",
        "create index job_sequence on job(sequence)",
        "alter table task add column lane integer not null default 0",
        "alter table task add column turn integer not null default 0",
        "drop index task_ready",
        "insert into lane(owner) select owner from job group by owner order by min(created_s)",
        "update job set lane = (select number from lane where lane.owner = job.owner)",
        "update job set sequence = n.place from (select id, row_number() over"
        " (order by created_s, id) as place from job) n where n.id = job.id",
        # 2 ** 40 is the step of one priority (`state.lanes`).
        "update task set lane = j.lane, turn = task.prio * 1099511627776 + j.sequence"
        " from job j where j.id = task.job",  # those that are over too: a loss may bring them back
        # Users with roles and several tokens, and jobs that others may see.
        "alter table users add column role text not null default 'researcher'",
        "alter table token add column name text not null default 'default'",
        "alter table token add column expires_s real",
        "alter table job add column shared text not null default ''",
        "create table share(job text not null, name text not null, primary key(job, name))"
        " without rowid",
        "alter table job add column parent text",
        "create index job_parent on job(parent) where parent is not null",
        "create table quota(owner text primary key, disk_bytes integer, tasks integer)"
        " without rowid",
        "create index task_ready on task(executor, lane, turn, id) where state = 'ready'",
        # What was measured of how far honest results of a graph lie apart.
        "create table tolerance(job text not null, graph text not null, measured text not null,"
        " primary key(job, graph)) without rowid",
        # What tasks need and devices have tells operators and classes apart.
        f"update graph set dtypes = {_NEEDS}",  # noqa: S608 - constants, here and below
        f"update task set dtypes = {_NEEDS}",  # noqa: S608
        "update task set dtypes = task.dtypes | (1 << (36 + case j.numeric_class"
        " when 'float32' then 1 when 'tf32' then 2 when 'bfloat16' then 3 when 'float16' then 4"
        " when 'int8' then 5 else 0 end)) from job j where j.id = task.job"
        " and (j.numeric_class != 'exact' or task.dtypes & 897 != 0)",  # 897: the floats
        f"update device set dtypes = {_NEEDS} | (63 << 36)",  # noqa: S608 - it refuses by itself
    ),
    6: (
        # Results that may be let go of, and the hours that volunteers computed.
        "alter table array add column retention text not null default 'durable'",
        "alter table array add column read_s real not null default 0",
        "create index array_cache on array(read_s) where retention = 'cache'",
        "alter table quota add column grid_hours real",
        "create table grid_use(owner text not null, month text not null, seconds real not null,"
        " primary key(owner, month)) without rowid",
    ),
    7: (
        # Which shards of a round were in time, where rounds may end without some.
        "create table arrival(job text not null, round integer not null, in_time text not null,"
        " closed_s real not null, primary key(job, round)) without rowid",
        # What is known of the signed errors of devices.
        "create table bias(job text not null, graph text not null, device text not null,"
        " known text not null, primary key(job, graph, device)) without rowid",
    ),
}
"""The statements that lead to a version from the one before."""


def create(tx: Tx) -> None:
    """Makes the tables of a new database."""
    for statement in STATEMENTS:
        tx.change(statement)
    tx.change("insert into meta values('schema_version', ?)", (str(SCHEMA_VERSION),))


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a database; 0: it is empty.

    Raises:
        NodeError: `database_version` where the file is somebody else's.
    """
    if connection.execute("select 1 from sqlite_master where name = 'meta'").fetchone() is None:
        if connection.execute("select 1 from sqlite_master limit 1").fetchone() is None:
            return 0
        raise NodeError("database_version", found="none", wanted=SCHEMA_VERSION)
    row = connection.execute("select value from meta where key = 'schema_version'").fetchone()
    text = row[0] if row is not None else "none"
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 9):
        raise NodeError("database_version", found=text, wanted=SCHEMA_VERSION)
    return int(text)


def refuse_unless_current(version: int) -> None:
    """Raises NodeError `database_newer`, `database_older`, `database_version`."""
    if version > SCHEMA_VERSION:
        raise NodeError("database_newer", found=version, wanted=SCHEMA_VERSION)
    if version < OLDEST:
        raise NodeError("database_version", found=version, wanted=SCHEMA_VERSION)
    if version < SCHEMA_VERSION:
        raise NodeError("database_older", found=version, wanted=SCHEMA_VERSION)


def upgrade(connection: sqlite3.Connection, path: Path) -> tuple[int, Path | None]:
    """Brings the database at `path` to this version. Nobody else may have it open.

    A copy of it as it was is synced beside it first; the steps run in one transaction, so that a
    failure or a crash leaves the old version.

    Returns:
        the version that it had (0: it was empty), and the copy; None when there was nothing to do.

    Raises:
        NodeError: `database_newer`, `database_version`, `upgrade_failed`.
    """
    version = version_of(connection)
    if version in (0, SCHEMA_VERSION):
        return version, None
    if not OLDEST <= version < SCHEMA_VERSION:
        refuse_unless_current(version)
    copy = path.with_name(f"{path.name}.version-{version}")
    try:
        _copy(connection, copy)
        _run(connection, version)
    except (sqlite3.Error, OSError) as cause:
        raise NodeError(
            "upgrade_failed", path=path, found=version, wanted=SCHEMA_VERSION, reason=cause
        ) from cause
    return version, copy


def _run(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("begin immediate")
    try:
        for number in range(version + 1, SCHEMA_VERSION + 1):
            for statement in STEPS[number]:
                connection.execute(statement)
        connection.execute(
            "update meta set value = ? where key = 'schema_version'", (str(SCHEMA_VERSION),)
        )
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it already
            connection.execute("rollback")
        raise


def _copy(connection: sqlite3.Connection, copy: Path) -> None:
    """A whole, synced copy, or none."""
    half = copy.with_name(f"{copy.name}.part")
    half.unlink(missing_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(half)) as target:
            connection.backup(target)
        os.chmod(half, 0o600)
        _sync(half, os.O_RDWR)
        os.replace(half, copy)
        _sync(copy.parent, os.O_RDONLY | os.O_DIRECTORY)
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
