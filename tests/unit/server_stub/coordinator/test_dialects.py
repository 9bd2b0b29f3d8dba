"""The words in which the databases differ."""

from __future__ import annotations

import sqlite3

import pytest

from server_stub.coordinator.dialects import POSTGRES, SQLITE, AppendOnly, placeholders, statements
from server_stub.coordinator.schema import MIGRATIONS


def test_question_marks_and_signs_of_percent() -> None:
    assert placeholders("SELECT ? WHERE a % 2 = ?") == "SELECT %s WHERE a %% 2 = %s"


def test_both_know_the_same_words_and_every_step_is_rendered() -> None:
    assert set(SQLITE.words) == set(POSTGRES.words)
    for dialect in (SQLITE, POSTGRES):
        for step in MIGRATIONS:
            for statement in statements(step, dialect):
                assert not set("{}") & set(statement)


def test_a_table_that_only_grows() -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE kept (a)")
        for statement in statements((AppendOnly("kept"),), SQLITE):
            connection.execute(statement)
        connection.execute("INSERT INTO kept VALUES (1)")
        for sql in ("UPDATE kept SET a = 2", "DELETE FROM kept"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(sql)
    connection.close()
