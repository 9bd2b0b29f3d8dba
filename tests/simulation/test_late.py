"""Rounds that end without late shards: whatever comes when and dies when, the record decides."""

from __future__ import annotations

import pytest

from gpugoblin.plan.arrivals import Decided
from tests.simulation.invariants import check, honest_result
from tests.simulation.late import LateShape, LateWorld, rounds_plan
from tests.simulation.world import Device, party, trusted

__all__: list[str] = []

ROUNDS, SHARDS, QUORUM = 5, 4, 2


def play(seed: int, kills: float, record: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]]:
    """What the last step gave, and the records of all rounds; a device is slow, one goes away."""
    world = LateWorld(seed, kills=kills, loses=0.1 if kills else 0.0)
    try:
        kills, world.kills = world.kills, 0.0
        devices = [
            Device(party(0)),
            Device(party(1)),
            Device(party(2), slow_s=50.0),
            Device(party(3), vanishes=0.3),
        ]
        for device in devices[:2]:
            trusted(world, device)
        plan = rounds_plan(ROUNDS, SHARDS, QUORUM, record)
        job = world.begin(plan)
        world.kills = kills
        world.every(1.0, world.tick)
        for device in devices:
            world.device_turn(device, 1)

        def done() -> bool:
            return bool(world.state_of(job) == "done")

        world.run(3000.0, lambda: check(world), done)
        world.kills = world.loses = 0.0
        if not done():
            world.run(4000.0, lambda: check(world), done)
        assert done(), "a round hangs"
        masks = world.records(job)
        assert sorted(masks) == list(range(ROUNDS))
        (blob,) = world.connection.execute(
            "select f.blob from fold f join task t on t.id = f.task where t.number = ?",
            (plan.count - 1,),
        ).fetchone()
        world.shape.masks.update(masks)
        assert world.base_of(blob) == honest_result(world, job, plan.count - 1)

        def free() -> bool:
            statement = "select count(*) from blob where refs > 0"
            return bool(world.connection.execute(statement).fetchone() == (0,))

        world.run(3000.0, lambda: check(world), free)
        assert free(), "a blob is held when all is over"
        return world.base_of(blob), tuple(masks[turn] for turn in range(ROUNDS))
    finally:
        world.close()


def _is_late(masks: tuple[str, ...]) -> bool:
    return any("0" in mask for mask in masks)


def _holds(masks: tuple[str, ...]) -> None:
    assert all(mask.count("1") >= QUORUM for mask in masks)
    assert masks[-1] == "1" * SHARDS


@pytest.mark.parametrize("seed", [1, 2])
def test_the_record_alone_decides_the_bytes(seed: int) -> None:
    """A node that is killed again and again gives what a quiet one with its record gives."""
    troubled, masks = play(seed, 0.002)
    _holds(masks)
    assert _is_late(masks)
    quiet, again = play(seed + 100, 0.0, masks)
    assert (quiet, again) == (troubled, masks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
def test_many_arrivals_and_kills(seed: int) -> None:
    found, masks = play(seed, (0.0, 0.002, 0.01)[seed % 3])
    _holds(masks)
    again, _ = play(seed + 1000, (0.01, 0.0, 0.002)[seed % 3], masks)
    assert again == found


def test_another_record_gives_something_else() -> None:
    """So what is compared above can differ."""
    plan = rounds_plan(2, 2, 1)
    ends = []
    for masks in ({0: "11", 1: "11"}, {0: "10", 1: "11"}, {0: "01", 1: "11"}):
        shape = LateShape(plan, masks)
        ends.append(shape.sources(5))
        assert Decided(plan, masks, 0).count == plan.count
    assert ends == [(2, 3, 4), (2, 3, 4, 1), (2, 3, 4, 0)]
