"""Receipts: one a lease, for verified work, kept until they are answered."""

from __future__ import annotations

import pytest

from server_stub.node.state import receipts
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import Device, Shape, World, party

__all__: list[str] = []


@pytest.fixture
def paid(world: World) -> World:
    """A world in which three tasks were done by one device."""
    world.submit(Shape(3, 1, "product"))
    world.every(1.0, world.tick)
    world.device_turn(Device(party(0), slow_s=0.1))
    world.run(60.0)
    return world


def test_a_receipt_names_lease_grant_and_claim(paid: World) -> None:
    found = receipts.waiting(SqliteTx(paid.connection))
    assert len(found) == 3
    assert {one.grant for one in found} == {party(0).grant}
    assert all(one.device_signature == b"s" * 64 for one in found)
    assert all(one.units > 0 for one in found)


def test_a_lease_is_credited_once(paid: World) -> None:
    before = paid.connection.execute("select credits from job").fetchone()
    lease = receipts.waiting(SqliteTx(paid.connection))[0].lease
    job = paid.connection.execute("select id from job").fetchone()[0]
    paid.handle(lambda s: receipts.credit(s, lease, job, 1000, 100))
    assert len(receipts.waiting(SqliteTx(paid.connection))) == 3
    assert paid.connection.execute("select credits from job").fetchone() == before


def test_gridcoin245_gridcoin901_b2498_units_are_the_larger_of_work_and_bytes(world: World) -> None:
    units = world.handle(
        lambda s: (
            receipts.units_of(s, 10**12, 0),
            receipts.units_of(s, 0, 10**10),
            receipts.units_of(s, 0, 0),
        )
    )
    assert units == (1.0, 1.0, 1e-9)


def test_what_is_answered_is_not_sent_again(paid: World) -> None:
    found = receipts.waiting(SqliteTx(paid.connection))
    paid.handle(lambda s: receipts.sent(s, [one.receipt for one in found[:2]]))
    paid.handle(lambda s: receipts.refused(s, found[0].receipt, "over_quota"))
    assert receipts.waiting(SqliteTx(paid.connection)) == found[2:]
    kept = paid.connection.execute("select refused from outbox where refused != ''").fetchall()
    assert kept == [("over_quota",)]
