"""The schema has no place for research data."""

from __future__ import annotations

import re

import pytest

from server_stub.coordinator.schema import COLUMNS, MIGRATIONS, VERSION
from tests.helpers.coordinator import Desk

FORBIDDEN = re.compile(
    r"shape|dtype|graph|operator|tensor|array|blob|chunk|payload|body|message|content|input|output"
    r"|result|value_text|data|path|file|job|task|label|title|note|comment|detail|reason|error|(^|_)log(_|$)"
    r"|json|text|email|address_of|ip\b|user_agent|host"
)
ALLOWED = {
    "catalog_hash": "the published catalog's hash, the same for everybody",
    "certificate_sha256": "a lab node's public certificate",
}


def columns(desk: Desk) -> dict[str, list[tuple[str, str]]]:
    tables = [row[0] for row in desk.tx.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        table: [(row[1], row[2]) for row in desk.tx.rows(f"PRAGMA table_info({table})")]
        for table in tables
    }


def test_the_columns_are_those_that_were_decided(desk: Desk) -> None:
    found = {table: tuple(name for name, _ in cols) for table, cols in columns(desk).items()}
    assert found == COLUMNS


def test_no_column_is_named_after_a_payload(desk: Desk) -> None:
    for table, cols in columns(desk).items():
        for name, _ in cols:
            assert not FORBIDDEN.search(name), f"{table}.{name}"
            if "hash" in name or "sha" in name:
                assert name in ALLOWED, f"{table}.{name}"


def test_bytes_are_keys_and_nonces_alone(desk: Desk) -> None:
    blobs = {
        name
        for cols in columns(desk).values()
        for name, kind in cols
        if kind not in ("TEXT", "INTEGER", "REAL")
    }
    assert blobs == {"public_key", "nonce"}


def test_tables_are_strict(desk: Desk) -> None:
    for _, table, kind, _, _, strict in desk.tx.rows("PRAGMA table_list"):
        if kind == "table" and not table.startswith("sqlite_"):
            assert strict == 1, table


def test_texts_stay_small_after_everything_was_used(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    device.grant()
    for table, cols in columns(desk).items():
        for name, kind in cols:
            if kind == "TEXT":
                row = desk.tx.row(f"SELECT MAX(LENGTH({name})) FROM {table}")  # noqa: S608
                assert row is not None
                assert (row[0] or 0) <= 64, f"{table}.{name}"
    assert lab.name


def test_the_version_lies_in_the_database(desk: Desk) -> None:
    assert desk.tx.row("SELECT value FROM counter WHERE name = 'schema'") == (VERSION,)
    assert len(MIGRATIONS) == VERSION


@pytest.mark.parametrize("table", ["audit", "entry", "posting", "receipt"])
def test_append_only_tables_have_both_triggers(desk: Desk, table: str) -> None:
    row = desk.tx.row(
        "SELECT COUNT(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", table
    )
    assert row == (2,)
