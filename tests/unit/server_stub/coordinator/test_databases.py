"""The database that a configuration names is made, opened and worked in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpugoblin.errors import CoordinatorError, SettingsError
from server_stub.coordinator import databases
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.state import initialize, open_house

COUNT = "SELECT COUNT(*) FROM account"
INSERT = "INSERT INTO account (account, name, created_s) VALUES ('account_a', 'ann', 0)"


def used(settings: Settings) -> None:
    databases.check_there(settings)
    store = databases.open_store(settings)
    try:
        assert store.submit(lambda tx: tx.execute(INSERT)).result(10) == 1
        assert databases.transact(settings, lambda tx: tx.row(COUNT)) == (1,)
    finally:
        store.close()


def test_sqlite(tmp_path: Path) -> None:
    settings = initialize(tmp_path / "coordinator.toml", port=0)
    used(settings)
    databases.sqlite_file(settings).unlink()
    with pytest.raises(CoordinatorError) as caught:
        databases.check_there(settings)
    assert caught.value.code == "coordinator_not_set_up"


def test_postgres(tmp_path: Path, dsn: str) -> None:
    settings = initialize(tmp_path / "coordinator.toml", port=0, database=dsn)
    used(settings)
    assert not databases.sqlite_file(settings).exists()
    assert open_house(settings).public_key
    with pytest.raises(CoordinatorError) as caught:
        initialize(tmp_path / "again.toml", port=0, database=dsn, state_dir="other")
    assert caught.value.code == "coordinator_exists"


def test_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    settings = Settings.of({"state_dir": str(tmp_path), "database": "postgresql://h/name"})
    for refused in (databases.create, databases.open_store):
        with pytest.raises(CoordinatorError) as caught:
            refused(settings)
        assert caught.value.code == "coordinator_postgres_missing"
    with pytest.raises(CoordinatorError) as caught:
        databases.transact(settings, lambda tx: tx.row(COUNT))
    assert caught.value.code == "coordinator_postgres_missing"


def test_another_kind_of_database_is_refused_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.of({"state_dir": str(tmp_path), "database": "mysql://user:hunter2@h/name"})
    assert "hunter2" not in str(caught.value)
