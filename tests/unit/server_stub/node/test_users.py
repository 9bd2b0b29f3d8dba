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


def code_of(caught: pytest.ExceptionInfo[NodeError]) -> str:
    return caught.value.code


def test_a_token_names_its_user_and_scopes(tx: Tx) -> None:
    token = users.add(tx, 1.0, "ann", ("read",))
    found = users.by_token(tx, token, 2.0)
    assert found is not None
    assert (found.name, found.scopes, found.local, found.role) == (
        "ann", frozenset({"read"}), False, "researcher",
    )  # fmt: skip
    with pytest.raises(NodeError) as caught:
        found.require("submit")
    assert code_of(caught) == "not_permitted"
    assert users.by_token(tx, token + "x", 2.0) is None
    assert users.by_token(tx, "", 2.0) is None


def test_the_database_does_not_know_the_token(tx: Tx) -> None:
    token = users.add(tx, 1.0, "ann", users.SCOPES)
    rows = [*tx.rows("select * from users"), *tx.rows("select * from token")]
    assert all(token not in str(row) for row in rows)
    assert all(token.removeprefix("goblin_") not in str(row) for row in rows)


def test_revoking_ends_all_tokens_and_the_name_can_return(tx: Tx) -> None:
    token = users.add(tx, 1.0, "ann", users.SCOPES)
    users.revoke(tx, 2.0, "ann")
    with pytest.raises(NodeError) as caught:
        users.by_token(tx, token, 2.0)
    assert code_of(caught) == "token_revoked"
    assert [(user.name, user.is_revoked) for user in users.listed(tx, 2.0)] == [("ann", True)]
    again = users.add(tx, 3.0, "ann", users.SCOPES)
    assert users.by_token(tx, again, 3.0) is not None
    with pytest.raises(NodeError):
        users.by_token(tx, token, 3.0)


def test_a_user_has_several_tokens_and_loses_one(tx: Tx) -> None:
    laptop = users.add(tx, 1.0, "ann", users.SCOPES, token="laptop")
    cluster = users.add(tx, 1.0, "ann", ("read",), token="cluster")
    users.revoke(tx, 2.0, "ann", "laptop")
    with pytest.raises(NodeError):
        users.by_token(tx, laptop, 2.0)
    assert users.by_token(tx, cluster, 2.0) is not None
    with pytest.raises(NodeError) as caught:
        users.revoke(tx, 2.0, "ann", "laptop")
    assert code_of(caught) == "token_unknown"
    (user,) = users.listed(tx, 2.0)
    assert {(t.name, t.state) for t in user.tokens} == {("laptop", "revoked"), ("cluster", "valid")}


def test_a_token_expires_by_itself_and_makes_room(tx: Tx) -> None:
    token = users.add(tx, 1.0, "ann", users.SCOPES, expires_s=10.0)
    found = users.by_token(tx, token, 9.9)
    assert found is not None
    for look in (
        lambda: users.by_token(tx, token, 10.0),
        lambda: users.require_valid(tx, found, 10.0),
    ):
        with pytest.raises(NodeError) as caught:
            look()
        assert code_of(caught) == "token_expired"
    assert users.listed(tx, 10.0)[0].tokens[0].state == "expired"
    with pytest.raises(NodeError) as caught:
        users.add(tx, 9.0, "ann", users.SCOPES)
    assert code_of(caught) == "user_exists"
    assert users.by_token(tx, users.add(tx, 10.0, "ann", users.SCOPES), 11.0) is not None
    with pytest.raises(NodeError):
        users.add(tx, 10.0, "bob", users.SCOPES, expires_s=9.0)


def test_administrators_are_named_once_for_tokens_and_for_this_machine(tx: Tx) -> None:
    token = users.add(tx, 1.0, "ann", users.SCOPES)
    other = users.local_user(3_999_999)
    assert not users.known_here(tx, other).is_administrator
    for name in ("ann", other.name):
        users.set_role(tx, 1.0, name, "administrator")
    found = users.by_token(tx, token, 2.0)
    assert found is not None
    assert found.is_administrator
    assert users.known_here(tx, other).is_administrator
    users.set_role(tx, 1.0, other.name, "researcher")
    assert not users.known_here(tx, other).is_administrator
    with pytest.raises(NodeError):
        users.set_role(tx, 1.0, "ann", "emperor")


@pytest.mark.parametrize(
    ("name", "scopes", "code"),
    [
        ("ann", ("read",), "user_exists"),
        ("", ("read",), "parameter_invalid"),
        ("a\nb", ("read",), "parameter_invalid"),
        ("a/b", ("read",), "parameter_invalid"),
        ("bob", ("everything",), "parameter_invalid"),
    ],
)
def test_what_cannot_be_a_user(tx: Tx, name: str, scopes: tuple[str, ...], code: str) -> None:
    users.add(tx, 1.0, "ann", ("read",))
    with pytest.raises(NodeError) as caught:
        users.add(tx, 1.0, name, scopes)
    assert caught.value.code == code
    with pytest.raises(NodeError):
        users.revoke(tx, 1.0, "no-such-user")


def test_the_nodes_own_user_may_name_files_and_others_where_the_operator_says_so() -> None:
    own = users.local_user(os.getuid())
    assert own.local
    assert own.name
    assert users.local_user(0).local
    other = users.local_user(3_999_999)
    assert other.name == "uid-3999999"
    assert not other.local
    assert other.scopes == own.scopes
    assert (users.local_user(0).role, other.role) == ("administrator", "researcher")
    named = users.local_user(3_999_999, administrators=["uid-3999999"])
    assert named.is_administrator
    assert users.local_user(3_999_999, all_name_files=True).local


def test_a_user_of_this_machine_is_revoked_by_name_and_comes_back(tx: Tx) -> None:
    other = users.local_user(3_999_999, administrators=["uid-3999999"])
    assert users.known_here(tx, other) == other
    with pytest.raises(NodeError):
        users.revoke(tx, 1.0, other.name, "laptop")
    users.revoke(tx, 1.0, other.name)
    for look in (
        lambda: users.known_here(tx, other),
        lambda: users.require_valid(tx, other, 1.0),
    ):
        with pytest.raises(NodeError) as caught:
            look()
        assert code_of(caught) == "user_revoked"
    with pytest.raises(NodeError) as caught:
        users.revoke(tx, 2.0, other.name)
    assert code_of(caught) == "user_unknown", "that has been done"
    users.set_role(tx, 3.0, other.name, "researcher")
    assert users.known_here(tx, other) == other
    users.require_valid(tx, other, 3.0)


def test_a_revoked_administrator_comes_back_as_a_researcher(tx: Tx) -> None:
    users.add(tx, 1.0, "ann", users.SCOPES)
    users.set_role(tx, 1.0, "ann", "administrator")
    users.revoke(tx, 2.0, "ann", "default")
    assert users.listed(tx, 2.0)[0].role == "administrator", "one token is not the user"
    users.revoke(tx, 2.0, "ann")
    found = users.by_token(tx, users.add(tx, 3.0, "ann", users.SCOPES), 3.0)
    assert found is not None
    assert not found.is_administrator
