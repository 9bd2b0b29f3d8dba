"""A restart changes nothing that anyone can see, at whatever moment it comes."""

from __future__ import annotations

import pytest

from server_stub.node.state.recover import recover
from server_stub.node.state.words import DropBlob, FinishJob, RunWork, Step
from tests.simulation.cast import ENGINE
from tests.simulation.invariants import check
from tests.simulation.world import Device, Shape, World, party

__all__: list[str] = []


def effects_of(world: World) -> list[object]:
    seen: list[object] = []

    def body(step: Step) -> None:
        recover(step)
        seen.extend(step.effects)

    world.handle(body)
    return seen


def test_local_leases_are_ready_again_without_an_attempt(world: World) -> None:
    from server_stub.node.state import dispatch

    job = world.submit(Shape(2, 1, "product"), executor="local")
    world.generate(job)
    world.handle(lambda step: dispatch.lease_local(step, 2, ENGINE))
    effects_of(world)
    rows = world.connection.execute("select state, attempt from task").fetchall()
    assert rows == [("ready", 0), ("ready", 0)]


@pytest.mark.parametrize("moment_s", [2.0, 4.0, 8.0, 16.0, 24.0])
def test_twice_is_once_and_the_job_goes_on(world: World, moment_s: float) -> None:
    job = world.submit(Shape(6, 2, "recompute"))
    world.every(1.0, world.tick)
    for number in range(3):
        world.device_turn(Device(party(number), slow_s=2.0))
    world.run(moment_s)
    first = effects_of(world)
    before = world.connection.execute("select id, state from task order by id").fetchall()
    assert effects_of(world) == first
    assert world.connection.execute("select id, state from task order by id").fetchall() == before
    # All that was in memory is lost.
    world.under_way.clear()
    world._restart()
    world.run(600.0, lambda: check(world), lambda: world.state_of(job) == "done")
    assert world.state_of(job) == "done"


def test_a_job_that_was_being_named_is_named(world: World) -> None:
    job = world.submit(Shape(1), executor="local")
    world.connection.execute("update job set used = tasks")
    assert FinishJob(job) in effects_of(world)


def test_blobs_that_were_being_sent_are_let_go(world: World) -> None:
    world.connection.execute("insert into blob values('b', 1, 1)")
    world.connection.execute("insert into lent values('lent_a', 'b')")
    assert DropBlob("b") in effects_of(world)
    assert world.connection.execute("select count(*) from lent").fetchone() == (0,)


def test_inputs_that_were_being_packed_are_packed(world: World) -> None:
    job = world.submit(Shape(1))
    world.generate(job)
    assert RunWork("prepare", 1) in effects_of(world)
