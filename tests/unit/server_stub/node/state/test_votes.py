"""Second opinions: drawn at random, later, drawn again, given up."""

from __future__ import annotations

from server_stub.node.state import votes
from tests.simulation.world import Device, Shape, World, party, trusted
from tests.unit.server_stub.node.state.test_verdicts import _lease, _result, row

__all__: list[str] = []


def prepared(world: World, others: int) -> Device:
    first = Device(party(0))
    trusted(world, first)
    for number in range(1, others + 1):
        trusted(world, Device(party(number)))
    job = world.submit(Shape(1, 1, "recompute"))
    world.generate(job)
    world.run(5.0)
    _result(world, first, _lease(world, first), "a|x")
    return first


def test_one_is_drawn_and_not_at_once(world: World) -> None:
    prepared(world, 3)
    device, after_s, until_s, give_up_s = row(
        world, "select device, after_s, until_s, give_up_s from vote_call"
    )
    assert device != party(0).device
    assert world.now_s + 5.0 <= after_s <= world.now_s + 30.0
    assert after_s < until_s
    assert give_up_s <= world.now_s + 2 * 600.0


def test_the_draw_is_spread_over_all_who_qualify() -> None:
    drawn = set()
    for seed in range(40):
        world = World(seed)
        prepared(world, 3)
        drawn.add(row(world, "select device from vote_call")[0])
        world.close()
    assert len(drawn) == 3


def test_only_the_drawn_device_gets_it_and_only_then(world: World) -> None:
    prepared(world, 2)
    drawn, after_s = row(world, "select device, after_s from vote_call")
    asks = {party(n).device: Device(party(n)) for n in (1, 2)}
    assert world.handle(lambda step: votes.called(step, drawn)) is None
    world.now_s = after_s + 0.1
    other = next(key for key in asks if key != drawn)
    assert world.handle(lambda step: votes.called(step, other)) is None
    assert world.handle(lambda step: votes.called(step, drawn)) == 1


def test_another_is_drawn_when_the_first_does_not_come(world: World) -> None:
    prepared(world, 3)
    before = row(world, "select until_s, give_up_s from vote_call")
    world.now_s = before[0] + 1.0
    world.handle(votes.overdue)
    after = row(world, "select until_s, give_up_s from vote_call")
    assert after[0] > before[0]
    assert after[1] == before[1]


def test_the_validator_decides_after_two_lease_times(world: World) -> None:
    prepared(world, 3)
    world.now_s = row(world, "select give_up_s from vote_call")[0] + 100.0
    world.handle(votes.overdue)
    assert row(world, "select count(*) from vote_call") == (0,)
    world.run(20.0)
    assert row(world, "select state, verified_by from task") == ("used", "recompute")


def test_nobody_to_draw_is_the_validators_at_once(world: World) -> None:
    prepared(world, 0)
    assert row(world, "select count(*) from vote_call") == (0,)
    world.run(20.0)
    assert row(world, "select verified_by from task") == ("recompute",)
