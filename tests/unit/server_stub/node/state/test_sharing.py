"""Jobs belong to one user; others see what they were let see, and no more."""

from __future__ import annotations

import pytest

from gpugoblin.errors import NodeError
from server_stub.node.state import jobs, sharing
from server_stub.node.store.protocol import Tx
from server_stub.node.store.sqlite import SqliteTx
from server_stub.node.users import User
from tests.simulation.world import Shape, World

__all__: list[str] = []

ANN, BOB, CYD = (User(name, frozenset({"read", "submit"}), local=False) for name in
                 ("ann", "bob", "cyd"))  # fmt: skip
ROOT = User("root", frozenset({"read", "submit"}), local=True, role="administrator")


def tx_of(world: World) -> Tx:
    return SqliteTx(world.connection)


def refused(code: str, look: object, *arguments: object) -> None:
    with pytest.raises(NodeError) as caught:
        look(*arguments)  # type: ignore[operator]
    assert caught.value.code == code


def seen(world: World, user: User) -> set[str]:
    return {info.name for info in sharing.visible(tx_of(world), user)}


def test_a_job_is_its_owners_until_it_is_shared(world: World) -> None:
    tx = tx_of(world)
    job = world.submit(Shape(2, 1, "product"), owner="ann", name="gram")
    world.submit(Shape(2, 1, "product"), owner="bob", name="gram2")
    assert sharing.readable(tx, ANN, "gram") == job
    for name in (job, "gram", "ann/gram"):
        refused("unknown_job", sharing.readable, tx, BOB, name)
        refused("unknown_job", sharing.changeable, tx, BOB, name)
    world.handle(lambda step: sharing.share(step, job, ["bob", "bob"], lab=False))
    assert sharing.shared(tx, job).users == ("bob",)
    for name in (job, "ann/gram"):
        assert sharing.readable(tx, BOB, name) == job
        refused("not_the_owner", sharing.changeable, tx, BOB, name)
        refused("unknown_job", sharing.readable, tx, CYD, name)
    refused("unknown_job", sharing.readable, tx, BOB, "gram")  # a bare name is one's own
    assert seen(world, BOB) == {"gram", "gram2"}
    assert seen(world, CYD) == set()
    world.handle(lambda step: sharing.share(step, job, (), lab=True))
    assert seen(world, CYD) == {"gram"}
    assert seen(world, BOB) == {"gram", "gram2"}
    world.handle(lambda step: sharing.share(step, job, (), lab=False))
    assert seen(world, BOB) == {"gram2"}
    assert seen(world, ANN) == {"gram"}


def test_results_of_a_shared_job_are_readable_and_inputs_are_not(world: World) -> None:
    tx = tx_of(world)
    job = world.submit(Shape(2, 1, "product"), owner="ann", name="gram")
    refused("unknown_array", sharing.array_of, tx, BOB, "array_gramout")
    world.handle(lambda step: sharing.share(step, job, ("bob",), lab=False))
    assert sharing.array_of(tx, BOB, "array_gramout").job == job
    refused("unknown_array", sharing.array_of, tx, BOB, "array_gram")
    refused("unknown_array", sharing.array_of, tx, CYD, "array_gramout")
    assert sharing.array_of(tx, ANN, "array_gram").owner == "ann"


def test_administrators_see_and_end_everything(world: World) -> None:
    tx = tx_of(world)
    job = world.submit(Shape(2, 1, "product"), owner="ann", name="gram")
    assert sharing.changeable(tx, ROOT, "ann/gram") == job
    assert seen(world, ROOT) == {"gram"}
    assert sharing.array_of(tx, ROOT, "array_gramout").job == job


def test_a_deleted_job_leaves_no_share(world: World) -> None:
    job = world.submit(Shape(2, 1, "product"), owner="ann", name="gram")
    world.handle(lambda step: sharing.share(step, job, ("bob",), lab=False))
    world.handle(lambda step: jobs.delete(step, job))
    assert world.connection.execute("select count(*) from share").fetchone() == (0,)
    refused("unknown_job", sharing.shared, tx_of(world), job)


def test_a_job_is_shared_with_so_many_only(world: World) -> None:
    job = world.submit(Shape(2, 1, "product"), owner="ann", name="gram")
    names = [f"user{number}" for number in range(101)]
    with pytest.raises(NodeError) as caught:
        world.handle(lambda step: sharing.share(step, job, names, lab=False))
    assert caught.value.code == "share_too_wide"
