"""The state machine in bad worlds: killed nodes, lost messages, liars, deserters, latecomers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpugoblin.graph.dtypes import Dtypes
from gpugoblin.wire.messages.task import Constraints
from server_stub.node.state import ended, jobs
from tests.simulation.cast import WITH_FLOAT64
from tests.simulation.invariants import check
from tests.simulation.world import Device, Shape, World, party, trusted

__all__: list[str] = []


def build(seed: int) -> tuple[World, str]:
    """A world whose trouble depends on the seed."""
    world = World(
        seed,
        kills=(0.0, 0.002, 0.01)[seed % 3],
        loses=(0.0, 0.1, 0.2)[seed % 3],
        repeats=(0.0, 0.1, 0.2)[(seed // 3) % 3],
    )
    shape = (
        Shape(8, 1, "product"),
        Shape(8, 1, "recompute"),
        Shape(4, 3, "recompute", fan=2),
        Shape(3, 4, "product", fan=1),
    )[seed % 4]
    kills, world.kills = world.kills, 0.0
    devices = [
        Device(party(0)),
        Device(party(1)),
        Device(party(2), slow_s=80.0),
        Device(party(3), vanishes=0.4, abandons=0.2),
        # One owner with two devices that tell the same lie.
        Device(party(4), lies=0.5, lie="same"),
        Device(party(5, owner=4), lies=0.5, lie="same"),
        Device(party(6), lies=1.0, lie="own", slow_s=5.0 if seed % 2 else 90.0),
    ]
    for device in devices[: 2 + seed % 4]:
        trusted(world, device)
    world.kills = kills
    job = world.submit(
        shape, executor="local" if seed % 7 == 0 else "grid", speculative=seed % 3,
        numeric_class="exact" if seed % 5 == 0 and shape.verify != "product" else "float32",
    )  # fmt: skip
    world.every(1.0, world.tick)
    world.every(1.0, world.local_engine)
    for device in devices:
        world.device_turn(device)
    return world, job


def play(seed: int, more: Callable[[World, str], None] | None = None) -> World:
    """Trouble for twenty minutes at most; then the world heals, and the job must end.

    Args:
        more: further trouble, planned at the beginning.
    """
    world, job = build(seed)
    if more is not None:
        more(world, job)
    try:

        def done() -> bool:
            return world.state_of(job) == "done"

        world.run(1200.0, lambda: check(world), done)
        world.kills = world.loses = world.repeats = 0.0
        if not done():
            world.run(4000.0, lambda: check(world), done)
        assert world.state_of(job) == "done", "the job does not end"
        check(world)
        _leaves_nothing(world)
    finally:
        world.close()
    return world


def _leaves_nothing(world: World) -> None:
    """When all is over and judged, no blob is left."""

    def held() -> int:
        row = world.connection.execute("select count(*) from blob where refs > 0").fetchone()
        return int(row[0])

    world.run(2000.0, over=lambda: held() == 0)
    assert held() == 0, "blobs are kept for nobody"


def interrupt(world: World, job: str) -> None:
    """Now and then the job is cancelled, or fails over one of its tasks, and goes on a while later:
    what was used before is used still, and by the same results."""

    def folds() -> set[tuple[object, ...]]:
        return set(world.connection.execute("select task, slot, blob, at_s from fold").fetchall())

    def end() -> None:
        if world.state_of(job) != "running":
            return
        number = world.rng.randrange(8)
        if world.rng.random() < 0.5:
            world.try_handle(lambda step: jobs.cancel(step, job))
        else:
            world.try_handle(lambda step: jobs.fail(step, job, "disk_failed", number, "why"))
        before = folds()
        world.later(world.rng.uniform(0.0, 40.0), lambda: go_on(before))

    def go_on(before: set[tuple[object, ...]]) -> None:
        assert before <= folds(), "a used result was lost"
        done = world.try_handle(
            lambda step: ended.resume(step, job, Constraints(sandbox="none"), 0, [False])
        )
        if done is None or world.state_of(job) in ("failed", "cancelled"):
            world.later(5.0, lambda: go_on(before))

    for _ in range(world.rng.randrange(1, 6)):
        world.later(world.rng.uniform(1.0, 150.0), end)


@pytest.mark.parametrize("seed", range(24))
def test_ending_and_going_on_changes_no_result(seed: int) -> None:
    play(seed, interrupt)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(10))
def test_ending_and_going_on_changes_no_result_in_many_worlds(block: int) -> None:
    for seed in range(3000 + block * 50, 3050 + block * 50):
        play(seed, interrupt)


@pytest.mark.parametrize("seed", range(24))
def test_a_bad_world_changes_no_result(seed: int) -> None:
    play(seed)


def mixed(seed: int) -> World:
    """Of two dtypes, one is had by few devices; the jobs of both end (`invariants` sees leases)."""
    world = World(seed, loses=0.1, repeats=0.1)
    float64 = Dtypes.of(("float32", "float64"), ("float64",), ()).mask()
    few = [Device(party(number), capabilities=WITH_FLOAT64) for number in range(2)]
    few.append(Device(party(5), vanishes=0.5, abandons=0.3, capabilities=WITH_FLOAT64))
    many = [Device(party(number)) for number in (2, 3, 4)]
    for device in (*few, *many):
        trusted(world, device)
        world.device_turn(device)
    named = [
        world.submit(Shape(6, 2, "recompute", dtypes=float64), name="wide"),
        world.submit(Shape(6, 1, "product"), name="usual"),
    ]
    world.every(1.0, world.tick)
    try:
        world.run(
            4000.0, lambda: check(world),
            lambda: all(world.state_of(name) == "done" for name in named),
        )  # fmt: skip
        assert [world.state_of(name) for name in named] == ["done", "done"]
        check(world)
    finally:
        world.close()
    return world


@pytest.mark.parametrize("seed", range(6))
def test_tasks_go_to_devices_that_have_their_dtypes(seed: int) -> None:
    mixed(seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(20))
def test_many_bad_worlds_change_no_result(block: int) -> None:
    for seed in range(1000 + block * 50, 1050 + block * 50):
        play(seed)
