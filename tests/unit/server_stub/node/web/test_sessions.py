"""Sessions: sealed, bounded, ended."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from server_stub.node.store.protocol import Tx
from server_stub.node.store.sqlite import SqliteTx, connect, migrate
from server_stub.node.web import sessions

TOKEN = "goblin_abcdefgh"


@pytest.fixture
def tx() -> Iterator[Tx]:
    connection = connect(":memory:")
    migrate(connection)
    yield SqliteTx(connection)
    connection.close()


def rows(tx: Tx) -> list[tuple[str, str]]:
    return [(k, v) for k, v in tx.rows("select * from meta where key like 'session:%'")]


def test_a_secret_stands_for_its_token(tx: Tx) -> None:
    secret = sessions.begin(tx, 100.0, TOKEN)
    other = sessions.begin(tx, 100.0, "goblin_other")
    assert sessions.token_of(tx, 100.0, secret) == TOKEN
    assert sessions.token_of(tx, 100.0, other) == "goblin_other"
    assert sessions.token_of(tx, 100.0 + sessions.LASTS_S - 1, secret) == TOKEN
    assert sessions.token_of(tx, 100.0 + sessions.LASTS_S, secret) is None
    sessions.end(tx, secret)
    assert sessions.token_of(tx, 100.0, secret) is None
    assert sessions.token_of(tx, 100.0, other) == "goblin_other"


def test_the_database_holds_nothing_that_signs_in(tx: Tx) -> None:
    secret = sessions.begin(tx, 100.0, TOKEN)
    ((key, value),) = rows(tx)
    assert secret not in key + value
    assert TOKEN not in value
    for guess in ("", "x", secret[:-1], secret + "x", "x" * 1000, key):
        assert sessions.token_of(tx, 100.0, guess) is None


def test_a_row_that_was_changed_is_no_session(tx: Tx) -> None:
    secret = sessions.begin(tx, 100.0, TOKEN)
    ((key, value),) = rows(tx)
    sealed = json.loads(value)
    sealed["sealed"] = "AAAA" + sealed["sealed"][4:]
    tx.change("update meta set value = ? where key = ?", (json.dumps(sealed), key))
    assert sessions.token_of(tx, 100.0, secret) is None


def test_old_sessions_go_and_their_number_is_bounded(
    tx: Tx, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.begin(tx, 0.0, TOKEN)
    sessions.begin(tx, sessions.LASTS_S, TOKEN)
    assert len(rows(tx)) == 1
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 5)
    secrets = [sessions.begin(tx, sessions.LASTS_S + n, TOKEN) for n in range(20)]
    assert len(rows(tx)) == 5
    alive = [sessions.token_of(tx, sessions.LASTS_S + 20, one) is not None for one in secrets]
    assert alive == [False] * 15 + [True] * 5
