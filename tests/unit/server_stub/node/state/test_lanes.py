"""Users take turns on the real state machine, and a restart changes nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from gpugoblin.errors import NodeError
from gpugoblin.graph.dtypes import EVERY_DTYPE
from gpugoblin.wire.messages.lease import Exchange
from server_stub.node.state import dispatch, jobs, lanes, own
from server_stub.node.state.fairness import REBASE
from server_stub.node.state.words import Step
from tests.simulation.cast import ENGINE
from tests.simulation.world import CAPABILITIES, Device, Shape, World, party

__all__: list[str] = []


def begin(world: World, owner: str, name: str, count: int = 8, **job: object) -> str:
    made = world.submit(Shape(count, 1, "product"), owner=owner, name=name, **job)  # type: ignore[arg-type]
    for _ in range(count):
        world.generate(made)
    world.run(5.0)
    return made


def lease_some(world: World, count: int, executor: str) -> list[str]:
    """The owners whose tasks are leased, one exchange (or look of the engine) for each."""
    if executor == "local":
        for _ in range(count):
            world.handle(lambda step: dispatch.lease_local(step, 1, ENGINE))
    elif executor == "ray":
        offer = own.Offer("ray:a", ("ray", "grid"), 2**40, 2**40, EVERY_DTYPE.mask())
        for _ in range(count):
            world.handle(lambda step: own.lease(step, offer, 1))
    else:
        for number in range(count):
            device = Device(party(number))
            world.exchange(device, Exchange(want=1, capabilities=CAPABILITIES))
    rows = world.connection.execute(
        "select j.owner from lease l join job j on j.id = l.job order by l.rowid"
    )
    return [owner for (owner,) in rows]


@pytest.mark.parametrize("executor", ["grid", "local", "ray"])
def test_who_came_first_does_not_keep_the_others_waiting(world: World, executor: str) -> None:
    for name in ("one", "two", "three"):
        begin(world, "ann", name, executor=executor)
    begin(world, "bob", "late", executor=executor)
    begin(world, "cyd", "later", executor=executor)
    owners = lease_some(world, 12, executor)
    assert sorted(owners[:3]) == ["ann", "bob", "cyd"]
    assert Counter(owners) == {"ann": 4, "bob": 4, "cyd": 4}


def test_one_exchange_that_asks_for_many_takes_turns_too(world: World) -> None:
    begin(world, "ann", "a")
    begin(world, "bob", "b")
    reply = world.exchange(Device(party(0)), Exchange(want=4, capabilities=CAPABILITIES))
    assert reply is not None
    owners = Counter(world.connection.execute(
        "select j.owner from lease l join job j on j.id = l.job"
    ).fetchall())  # fmt: skip
    assert owners == {("ann",): 2, ("bob",): 2}


def test_within_a_user_priority_then_age(world: World) -> None:
    begin(world, "ann", "old", 3)
    begin(world, "ann", "young", 3)
    begin(world, "ann", "urgent", 3, priority=7)
    lease_some(world, 9, "grid")
    rows = world.connection.execute(
        "select j.name from lease l join job j on j.id = l.job order by l.rowid"
    ).fetchall()
    assert [name for (name,) in rows] == ["urgent"] * 3 + ["old"] * 3 + ["young"] * 3


def test_turns_go_on_after_a_restart(world: World) -> None:
    begin(world, "ann", "a")
    begin(world, "bob", "b")
    lease_some(world, 3, "grid")
    kept = world.connection.execute("select * from fair order by executor, lane").fetchall()
    assert [row[:2] for row in kept] == [("grid", -1), ("grid", 1), ("grid", 2)]
    # The state machine holds nothing in memory: the same rows give the same next turn.
    owners = lease_some(world, 1, "grid")
    assert owners == ["ann", "bob", "ann", "bob"]


def test_a_user_alone_costs_no_write(world: World) -> None:
    begin(world, "ann", "a")
    lease_some(world, 3, "grid")
    assert world.connection.execute("select count(*) from fair").fetchone() == (0,)


def test_what_fits_no_device_does_not_hold_up_the_others(world: World) -> None:
    job = begin(world, "ann", "huge")
    begin(world, "bob", "b")
    world.connection.execute("update task set memory_bound_bytes = 1 << 50 where job = ?", (job,))
    assert Counter(lease_some(world, 3, "grid")) == {"bob": 3}


def test_a_heavier_user_gets_more_turns(world: World) -> None:
    begin(world, "ann", "a", 12)
    begin(world, "bob", "b", 12)
    world.handle(lambda step: lanes.set_weight(step.tx, "bob", 2))
    owners = Counter(lease_some(world, 9, "grid"))
    assert owners == {"ann": 3, "bob": 6}
    for weight in (0, 1001):
        with pytest.raises(NodeError):
            world.handle(lambda step: lanes.set_weight(step.tx, "bob", weight))  # noqa: B023


def test_times_begin_again_before_they_overflow(world: World) -> None:
    begin(world, "ann", "a")
    begin(world, "bob", "b")
    lease_some(world, 2, "grid")
    world.connection.execute("update fair set tag = tag + ?", (REBASE + 1,))
    lease_some(world, 1, "grid")
    assert world.connection.execute("select count(*) from fair").fetchone() == (0,)


def test_a_cancelled_job_gives_its_turns_to_the_others(world: World) -> None:
    job = begin(world, "ann", "a")
    begin(world, "bob", "b")

    def stop(step: Step) -> bool:
        return jobs.cancel(step, job)

    world.handle(stop)
    assert Counter(lease_some(world, 4, "grid")) == {"bob": 4}


def test_a_second_opinion_counts_as_a_turn(world: World) -> None:
    begin(world, "ann", "a")
    begin(world, "bob", "b")
    assert lease_some(world, 2, "grid") == ["ann", "bob"]
    ((task,),) = world.connection.execute(
        "select t.id from task t join job j on j.id = t.job where j.owner = 'ann'"
        " and t.state = 'leased'"
    ).fetchall()
    world.connection.execute("update task set state = 'checking' where id = ?", (task,))
    world.connection.execute(
        "insert into vote_call values(?, ?, 0, 1e12, 1e12)", (task, party(7).device)
    )
    before = dict(world.connection.execute("select lane, tag from fair").fetchall())
    world.exchange(Device(party(7)), Exchange(want=1, capabilities=CAPABILITIES))
    assert world.connection.execute(
        "select count(*) from lease where role = 'vote'"
    ).fetchone() == (1,)
    after = dict(world.connection.execute("select lane, tag from fair").fetchall())
    assert after == {**before, 1: 2 * before[1]}
    # A turn that was had in advance: bob is next, and only then ann.
    assert lease_some(world, 2, "grid")[3:] == ["bob", "ann"]


def test_a_second_opinion_costs_nobody_anything_while_nobody_else_waits(world: World) -> None:
    begin(world, "ann", "a")
    charge = [(1, 5)]
    for task, cost in charge:
        world.handle(lambda step: lanes.charge(step, "grid", task, cost))  # noqa: B023 - at once
    assert world.connection.execute("select count(*) from fair").fetchone() == (0,)
    begin(world, "bob", "b")
    world.handle(lambda step: lanes.charge(step, "grid", 1, 5))
    assert world.connection.execute("select lane, tag from fair").fetchall() == [(1, 5000)]
