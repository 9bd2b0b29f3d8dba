"""Validators that a node knows: by key, changed by name, and not asked once they were caught."""

from __future__ import annotations

import pytest

from gpugoblin.errors import NodeError
from server_stub.node.state import validators
from server_stub.node.state.validators import Validator
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import World

__all__: list[str] = []

ONE = Validator("one", "1" * 64, ("owner_a",), ("net",), True)


def test_one_is_known_by_its_key_until_it_is_caught_or_removed(world: World) -> None:
    tx = SqliteTx(world.connection)
    validators.add(tx, ONE)
    validators.add(tx, Validator("two", "2" * 64))
    assert validators.by_key(tx, "1" * 64) == ONE
    assert [one.name for one in validators.listed(tx)] == ["one", "two"]
    world.handle(lambda step: validators.caught(step, "one"))
    assert [one.caught_s for one in validators.listed(tx)] == [world.now_s, None]
    assert code(lambda: validators.by_key(tx, "1" * 64)) == "validator_caught"
    validators.add(tx, ONE)
    assert validators.by_key(tx, "1" * 64) == ONE
    validators.remove(tx, "one")
    assert code(lambda: validators.by_key(tx, "1" * 64)) == "validator_unknown"
    assert code(lambda: validators.remove(tx, "one")) == "validator_unknown"


def code(call: object) -> str:
    with pytest.raises(NodeError) as caught:
        call()  # type: ignore[operator]  # a lambda of the test
    return caught.value.code


@pytest.mark.parametrize(
    "wrong",
    [
        Validator("One", "3" * 64), Validator("", "3" * 64), Validator("a", "3"),
        Validator("a", "Z" * 64), Validator("a", "1" * 64), Validator("a", "3" * 64, ("",)),
    ],
)  # fmt: skip
def test_what_has_no_such_form_is_refused(world: World, wrong: Validator) -> None:
    tx = SqliteTx(world.connection)
    validators.add(tx, ONE)
    assert code(lambda: validators.add(tx, wrong)) == "parameter_invalid"
    assert validators.listed(tx) == [ONE]
