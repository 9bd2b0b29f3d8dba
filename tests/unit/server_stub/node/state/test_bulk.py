from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from server_stub.node.state import bulk
from server_stub.node.store.sqlite import SqliteTx


@pytest.fixture
def tx() -> Iterator[SqliteTx]:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t(a integer primary key, b text)")
    yield SqliteTx(connection)
    connection.close()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 45, 64, 65, 200])
def test_pieces_are_all_items_in_order_with_few_lengths(count: int) -> None:
    pieces = list(bulk.pieces(range(count)))
    assert [item for piece in pieces for item in piece] == list(range(count))
    assert {len(piece) for piece in pieces} <= {1, 2, 4, 8, 16, 32, 64}


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64])
def test_marks_ask_for_the_same_values(tx: SqliteTx, count: int) -> None:
    bulk.insert(tx, "insert into t values", "(?, ?)", [(n, "x") for n in range(100)])
    marks, values = bulk.marks(range(count))
    assert marks.count("?") == len(values)
    assert len(values).bit_count() == 1
    assert len(tx.rows(f"select a from t where a in ({marks})", values)) == count  # noqa: S608 - marks


def test_inserts_of_any_length_and_what_follows_them(tx: SqliteTx) -> None:
    rows = [(n, f"v{n}") for n in range(100)]
    bulk.insert(tx, "insert into t values", "(?, ?)", rows[:40])
    bulk.insert(tx, "insert into t values", "(?, ?)", rows, " on conflict do nothing")
    assert tx.rows("select a, b from t order by a") == rows
    bulk.insert(tx, "insert into t values", "(?, ?)", [])
    assert len(tx.rows("select a from t")) == 100
