"""Copies of SQLite files that are in use."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from server_stub.sqlite_files import copy_pages, fault, read_only

__all__: list[str] = []


def test_a_copy_is_of_the_view_whatever_is_written_meanwhile(tmp_path: Path) -> None:
    path, target = tmp_path / "a.sqlite", tmp_path / "copy.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("pragma journal_mode = wal")
        writer.execute("create table t(x)")
        writer.execute("insert into t values(1)")
        with contextlib.closing(read_only(path)) as view:
            view.execute("begin")
            view.execute("select 1 from t").fetchall()
            writer.execute("insert into t values(2)")
            copy_pages(view, target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.glob("copy*")) == ["copy.sqlite"]
    with contextlib.closing(sqlite3.connect(target)) as copy:
        assert copy.execute("select x from t").fetchall() == [(1,)]
        assert fault(copy) == ""


def test_what_is_wrong_with_a_database(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "b.sqlite")) as made:
        made.execute("create table a(id integer primary key)")
        made.execute("create table b(a integer references a(id))")
        made.execute("insert into b values(7)")
        made.commit()
        assert fault(made) == "a row refers to none"
