"""The record of a round: written once, when it is over; nobody's silence holds it up for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpugoblin.plan.rounds import RoundsPlan
from server_stub.node.state.words import Step
from server_stub.node.store.sqlite import SqliteTx
from server_stub.node.training import closing, rows
from tests.simulation.cast import Shape
from tests.simulation.invariants import check
from tests.simulation.late import LateWorld, rounds_plan
from tests.simulation.world import Device, party


class Host:
    """The node's side, on a simulated world."""

    def __init__(self, world: LateWorld) -> None:
        self.world = world

    @property
    def store(self) -> Any:
        return self

    async def read(self, body: Any) -> Any:
        return body(SqliteTx(self.world.connection))

    async def handle(self, handler: Any) -> Any:
        return self.world.handle(handler)


@pytest.fixture
def late_world() -> Any:
    world = LateWorld(3)
    yield world
    world.close()


def begun(world: LateWorld, plan: RoundsPlan) -> str:
    """All shards of the first round are there and wait for somebody."""
    job = world.begin(plan)
    world.generate(job)
    world.run(5.0)
    return job


def came(world: LateWorld, number: int, issued_s: float, since_s: float) -> None:
    """A shard was taken then, and verified."""
    change = world.connection.execute
    change("update task set state = 'used', since_s = ? where number = ?", (since_s, number))
    taken(world, number, issued_s, "accepted")


def taken(world: LateWorld, number: int, issued_s: float, state: str = "issued") -> None:
    world.connection.execute(
        "insert into lease(id, task, job, role, device, owner, bucket, grant_id, state, issued_s,"
        " until_s) select ?, id, job, 'first', 'd', 'o', 'b', 'g', ?, ?, 1e12 from task"
        " where number = ?",
        (f"lease_{number}_{state}", state, issued_s, number),
    )


def closes(world: LateWorld, job: str, plan: RoundsPlan, turn: int = 0) -> bool:
    return world.handle(lambda step: closing.close(step, job, plan, turn))


def test_a_round_waits_for_its_quorum_and_its_deadline(late_world: LateWorld) -> None:
    plan = rounds_plan(3, 3, 2)
    job = begun(late_world, plan)
    start_s = late_world.now_s
    came(late_world, 0, start_s, start_s + 4.0)
    late_world.now_s = start_s + 500.0
    assert not closes(late_world, job, plan)
    came(late_world, 1, start_s, start_s + 8.0)
    # Both arrivals are 2 s from the middle one, 6 s.
    late_world.now_s = start_s + 6.0 + 4 * 1.4826 * 2.0 - 0.1
    assert not closes(late_world, job, plan)
    late_world.now_s += 0.2
    assert closes(late_world, job, plan)
    assert late_world.records(job) == {0: "110"}
    # Written once: what comes after it is late.
    came(late_world, 2, start_s, late_world.now_s)
    assert closes(late_world, job, plan)
    assert late_world.records(job) == {0: "110"}


def test_what_is_owed_is_given_to_somebody_else(late_world: LateWorld) -> None:
    """A late shard that stays away, in the round that cannot end without it."""
    plan = rounds_plan(3, 2, 1)
    job = begun(late_world, plan)
    start_s = late_world.now_s
    came(late_world, 0, start_s, start_s + 1.0)
    change = late_world.connection.execute
    change("update task set state = 'leased' where number = 1")
    taken(late_world, 1, start_s)
    late_world.now_s = start_s + 100.0
    assert closes(late_world, job, plan)
    for _ in range(2):
        late_world.generate(job)  # the step, and the shards of the next round
    change("update task set state = 'used' where number = 2")
    for number in (3, 4):
        came(late_world, number, late_world.now_s, late_world.now_s + 1.0)
    late_world.now_s += 1.5
    assert not closes(late_world, job, plan, 1)
    state = change("select state from task where number = 1").fetchone()
    assert state == ("leased",)  # the deadline is not over
    late_world.now_s += 10.0
    assert not closes(late_world, job, plan, 1)
    found = change("select t.state, l.state, l.cause from task t join lease l on l.task = t.id"
                   " where t.number = 1").fetchall()  # fmt: skip
    assert found == [("ready", "expired", "overdue")]
    came(late_world, 1, late_world.now_s, late_world.now_s)
    assert closes(late_world, job, plan, 1)
    assert late_world.records(job) == {0: "10", 1: "11"}


def test_the_last_round_is_whole_and_hurries_too(late_world: LateWorld) -> None:
    plan = rounds_plan(1, 2, 1)
    job = begun(late_world, plan)
    start_s = late_world.now_s
    came(late_world, 0, start_s, start_s + 1.0)
    late_world.connection.execute("update task set state = 'leased' where number = 1")
    taken(late_world, 1, start_s)
    late_world.now_s = start_s + 100.0
    assert not closes(late_world, job, plan)
    row = late_world.connection.execute("select state from task where number = 1").fetchone()
    assert row == ("ready",)


def test_a_recorded_round_waits_for_what_the_record_names(late_world: LateWorld) -> None:
    plan = rounds_plan(2, 2, 1, ("01", "11"))
    job = begun(late_world, plan)
    start_s = late_world.now_s
    came(late_world, 0, start_s, start_s + 1.0)
    late_world.now_s = start_s + 1000.0
    assert not closes(late_world, job, plan)
    came(late_world, 1, start_s, late_world.now_s)
    assert closes(late_world, job, plan)
    assert late_world.records(job) == {0: "01"}


def test_a_plan_is_decided_as_rounds_end(late_world: LateWorld) -> None:
    host = Host(late_world)
    plain = Shape(2)
    assert asyncio.run(closing.decided(host, "job", plain, 0, 0.0)) is plain  # type: ignore[arg-type] # any plan
    plan = rounds_plan(2, 2, 1)
    job = begun(late_world, plan)
    start_s = late_world.now_s

    def count(cursor: int) -> int:
        now_s = late_world.now_s
        return asyncio.run(closing.decided(host, job, plan, cursor, now_s)).count

    assert count(0) == 2
    assert count(2) == 2
    came(late_world, 0, start_s, start_s + 1.0)
    late_world.now_s = start_s + 100.0
    assert count(2) == 5
    assert late_world.records(job) == {0: "10"}
    check_records(late_world, job)


def check_records(world: LateWorld, job: str) -> None:
    """They go with the job."""

    def forget(step: Step) -> None:
        rows.forget(step, job)

    world.handle(forget)
    assert world.records(job) == {}


def test_kills_between_any_two_statements_lose_no_record(late_world: LateWorld) -> None:
    late_world.kills = 0.01
    plan = rounds_plan(2, 2, 1)
    job = late_world.begin(plan)
    late_world.every(1.0, late_world.tick)
    for number in range(3):
        late_world.device_turn(Device(party(number)), 1)
    late_world.run(3000.0, lambda: check(late_world), lambda: late_world.state_of(job) == "done")
    assert late_world.state_of(job) == "done"
    assert sorted(late_world.records(job)) == [0, 1]
