"""Users and tokens: shown once, kept as a hash, revocable."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from gpugoblin.errors import NodeError
from server_stub.node import users
from server_stub.node.store.protocol import Tx
from server_stub.node.store.sqlite import connect, migrate, transaction

__all__: list[str] = []


@pytest.fixture
def tx() -> Iterator[Tx]:
    connection = connect(":memory:")
    migrate(connection)
    with transaction(connection) as made:
        yield made
    connection.close()


def test_a_token_names_its_user_and_scopes(tx: Tx) -> None:
    token = users.add(tx, 1.0, "ann", ("read",))
    found = users.by_token(tx, token)
    assert found == users.User("ann", frozenset({"read"}), local=False)
    with pytest.raises(NodeError) as caught:
        found.require("submit")
    assert caught.value.code == "not_permitted"
    assert users.by_token(tx, token + "x") is None
    assert users.by_token(tx, "") is None


def test_the_database_does_not_know_the_token(tx: Tx) -> None:
    token = users.add(tx, 1.0, "ann", users.SCOPES)
    rows = [*tx.rows("select * from users"), *tx.rows("select * from token")]
    assert all(token not in str(row) for row in rows)
    assert all(token.removeprefix("goblin_") not in str(row) for row in rows)


def test_revoking_ends_all_tokens_and_the_name_can_return(tx: Tx) -> None:
    token = users.add(tx, 1.0, "ann", users.SCOPES)
    users.revoke(tx, 2.0, "ann")
    assert users.by_token(tx, token) is None
    assert users.listed(tx) == [("ann", True)]
    again = users.add(tx, 3.0, "ann", users.SCOPES)
    assert users.by_token(tx, again) is not None
    assert users.by_token(tx, token) is None


@pytest.mark.parametrize(
    ("name", "scopes", "code"),
    [
        ("ann", ("read",), "user_exists"),
        ("", ("read",), "parameter_invalid"),
        ("a\nb", ("read",), "parameter_invalid"),
        ("bob", ("everything",), "parameter_invalid"),
    ],
)
def test_what_cannot_be_a_user(tx: Tx, name: str, scopes: tuple[str, ...], code: str) -> None:
    users.add(tx, 1.0, "ann", ("read",))
    with pytest.raises(NodeError) as caught:
        users.add(tx, 1.0, name, scopes)
    assert caught.value.code == code
    with pytest.raises(NodeError):
        users.revoke(tx, 1.0, "nobody")


def test_the_nodes_own_user_may_name_files_and_others_where_the_operator_says_so() -> None:
    own = users.local_user(os.getuid())
    assert own.local
    assert own.name
    assert users.local_user(0).local
    other = users.local_user(3_999_999)
    assert other.name == "uid-3999999"
    assert not other.local
    assert other.scopes == own.scopes
    assert users.local_user(3_999_999, all_name_files=True).local
