"""Connections to PostgreSQL: the schema is the same, wrong databases are refused, no password."""

from __future__ import annotations

import psycopg
import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import postgres, schema
from server_stub.coordinator.schema import COLUMNS, VERSION
from server_stub.coordinator.store_postgres import transact
from tests.helpers.coordinator import memory
from tests.helpers.postgres import Postgres

NEWER = "UPDATE counter SET value = ? WHERE name = 'schema'"


@pytest.fixture
def place(dsn: str) -> str:
    postgres.create(dsn)
    return dsn


def test_the_columns_are_those_of_sqlite(place: str) -> None:
    kinds = {"text": "TEXT", "bigint": "INTEGER", "double precision": "REAL", "bytea": "BLOB"}
    rows = transact(
        place,
        lambda tx: tx.rows(
            "SELECT table_name, column_name, data_type, is_nullable FROM"
            " information_schema.columns WHERE table_schema = 'public'"
        ),
    )
    found = {(table, name): (kinds[kind], null == "YES") for table, name, kind, null in rows}
    assert set(found) == {(table, name) for table, names in COLUMNS.items() for name in names}
    with memory() as tx:
        for table in COLUMNS:
            for _, name, kind, not_null, _, key in tx.rows(f"PRAGMA table_info({table})"):
                assert found[table, name] == (kind, not not_null and not key), (table, name)


def test_texts_are_sorted_byte_by_byte(place: str) -> None:
    collations = transact(
        place,
        lambda tx: tx.rows(
            "SELECT DISTINCT collation_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND data_type = 'text'"
        ),
    )
    assert collations == [("C",)]


@pytest.mark.parametrize("table", ["audit", "entry", "posting", "receipt"])
@pytest.mark.parametrize("sql", ["DELETE FROM {}", "TRUNCATE {} CASCADE", "UPDATE {} SET {}"])
def test_append_only_tables_refuse(prepared: str, table: str, sql: str) -> None:
    column = COLUMNS[table][0]
    sql = sql.format(table, f"{column} = {column}")
    with pytest.raises(psycopg.IntegrityError, match="append-only"):
        transact(prepared, lambda tx: tx.execute(sql))


def test_a_database_is_made_once_and_found(dsn: str) -> None:
    with pytest.raises(CoordinatorError) as caught:
        postgres.open_database(dsn)
    assert caught.value.code == "coordinator_not_set_up"
    postgres.create(dsn)
    with pytest.raises(CoordinatorError) as caught:
        postgres.create(dsn)
    assert caught.value.code == "coordinator_exists"
    postgres.open_database(dsn).close()


def test_a_database_of_a_newer_program(place: str) -> None:
    transact(place, lambda tx: tx.execute(NEWER, VERSION + 1))
    with pytest.raises(CoordinatorError) as caught:
        postgres.open_database(place)
    assert caught.value.code == "coordinator_schema_newer"


def test_an_older_database_is_brought_up_once(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = ("CREATE TABLE later (number {integer}) {strict}", "INSERT INTO later VALUES (1)")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    monkeypatch.setattr(schema, "VERSION", VERSION + 1)
    for _ in range(2):
        assert transact(place, lambda tx: tx.rows("SELECT number FROM later")) == [(1,)]


def test_a_step_that_fails_changes_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ("CREATE TABLE later (number {integer}) {strict}", "NONSENSE")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
        patch.setattr(schema, "VERSION", VERSION + 1)
        with pytest.raises(CoordinatorError):
            postgres.open_database(place)
    assert transact(place, lambda tx: tx.row("SELECT to_regclass('later')")) == (None,)


def test_another_encoding_and_an_older_server_are_refused(
    server: Postgres, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.connect() as connection:
        connection.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'")
    with pytest.raises(CoordinatorError, match="LATIN1") as caught:
        postgres.create(server.dsn("latin"))
    assert caught.value.code == "coordinator_postgres_unfit"
    monkeypatch.setattr(postgres, "_MIN_VERSION", 10_000_000)
    with pytest.raises(CoordinatorError) as caught:
        postgres.create(dsn)
    assert caught.value.code == "coordinator_postgres_unfit"


def test_a_commit_is_never_set_to_be_lost_but_may_be_made_stricter(
    server: Postgres, dsn: str
) -> None:
    for given, used in (("off", "on"), ("remote_apply", "remote_apply")):
        chosen = f"{dsn}&options=-csynchronous_commit%3D{given}"
        with postgres.connect(chosen) as connection:
            assert connection.execute("SHOW synchronous_commit").fetchone() == (used,)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://user:hunter2@127.0.0.1:1/name",
        "postgresql://user:hunter2@/name?nonsense=1",
        "postgresql://user:hunter2@[/name",
    ],
)
def test_no_password_is_shown(dsn: str) -> None:
    with pytest.raises(CoordinatorError) as caught:
        postgres.open_database(dsn)
    assert caught.value.code == "coordinator_database_unreachable"
    assert "hunter2" not in f"{caught.value.what} {caught.value.fields}"
