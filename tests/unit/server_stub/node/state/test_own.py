"""Leases of the lab's own machines: what fits, what failed there, and that no clock ends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpugoblin.graph.dtypes import EVERY_DTYPE
from server_stub.node.state import leases, own
from server_stub.node.state.recover import recover
from server_stub.node.state.words import JobChanged, Step
from tests.simulation.world import Shape, World

__all__: list[str] = []

OFFER = own.Offer("ray:a", ("ray", "grid"), 2**30, 2**28, EVERY_DTYPE.mask())


@pytest.fixture
def job(world: World) -> str:
    """Three ready tasks of one job for the grid."""
    made = world.submit(Shape(3, 1, "product"))
    world.generate(made)
    world.run(5.0)
    return made


def take(world: World, offer: own.Offer = OFFER, want: int = 1) -> list[str]:
    return [one.lease for one in world.handle(lambda step: own.lease(step, offer, want))]


def states(world: World, table: str) -> list[str]:
    rows = world.connection.execute(f"select state from {table} order by id")  # noqa: S608 - a word
    return [row[0] for row in rows]


def give_back(world: World, lease: str, cause: str, device: str = "ray:a") -> str:
    return world.handle(lambda step: leases.abandon(step, own.party(device), lease, cause))


def test_tasks_go_in_order_as_many_as_are_wanted(world: World, job: str) -> None:
    assert len(take(world, want=2)) == 2
    assert states(world, "task") == ["leased", "leased", "ready"]
    assert len(take(world, want=9)) == 1
    assert take(world) == []


@pytest.mark.parametrize(
    "changes",
    [{"takes": ("ray",)}, {"memory_bytes": 0}, {"slot_bytes": 0}, {"takes": ("local", "ray")}],
)
def test_what_does_not_fit_or_is_not_for_it_is_left(
    world: World, job: str, changes: dict[str, object]
) -> None:
    assert take(world, replace(OFFER, **changes)) == []  # type: ignore[arg-type]


def test_dtypes_that_are_missing_are_not_taken(world: World, job: str) -> None:
    world.connection.execute("update task set dtypes = 3")
    assert take(world, replace(OFFER, dtypes=1)) == []
    assert take(world, replace(OFFER, dtypes=7))


def test_what_does_not_fit_a_machine_is_anothers(world: World, job: str) -> None:
    (lease,) = take(world)
    assert give_back(world, lease, "does_not_fit") == ""
    assert len(take(world, want=9)) == 2
    assert len(take(world, replace(OFFER, device="ray:b"), want=9)) == 1


def test_what_a_lost_machine_had_is_ready_again(world: World, job: str) -> None:
    (lease,) = take(world)
    give_back(world, lease, "ray_worker_lost")
    assert states(world, "task") == ["ready"] * 3
    assert len(take(world, want=9)) == 3


def test_another_machine_cannot_give_it_back(world: World, job: str) -> None:
    (lease,) = take(world)
    assert give_back(world, lease, "x", "ray:b") == "unknown_lease"
    assert states(world, "task")[0] == "leased"


def test_no_clock_ends_such_a_lease_but_a_new_life_does(world: World, job: str) -> None:
    take(world)
    world.now_s += 10.0**7
    world.handle(leases.expire)
    assert states(world, "lease") == ["issued"]
    world.handle(recover)
    assert states(world, "lease") == ["cancelled"]
    assert states(world, "task")[0] == "ready"


def test_a_task_that_always_comes_back_is_the_validators(world: World, job: str) -> None:
    world.connection.execute("update task set executor = 'ray'")
    for _ in range(20):
        for lease in take(world):
            give_back(world, lease, "engine_died")
    assert "suspect" in states(world, "task")


def test_jobs_for_ray_say_what_they_wait_for_and_that_it_is_over(world: World, job: str) -> None:
    def code() -> tuple[str, str]:
        found = world.connection.execute("select error_code, error_text from job").fetchone()
        return found[0], found[1]

    def wait(step: Step, *words: str) -> list[object]:
        own.wait(step, *words)
        return list(step.effects)

    assert world.handle(lambda step: wait(step, "ray_unreachable", "why")) == []
    assert code() == ("", "")
    world.connection.execute("update job set executor = 'ray'")
    told = world.handle(lambda step: wait(step, "ray_unreachable", "why"))
    assert told == [JobChanged(job)]
    assert code() == ("ray_unreachable", "why")
    world.handle(lambda step: wait(step, "", ""))
    assert code() == ("", "")
    world.connection.execute("update job set error_code = 'disk_full'")
    world.handle(lambda step: wait(step, "", ""))
    assert code()[0] == "disk_full"


def test_users_take_turns_over_the_jobs_of_all_executors(world: World) -> None:
    for name in ("one", "two"):
        world.generate(world.submit(Shape(4, 1, "product"), owner="ann", name=name, executor="ray"))
    world.generate(world.submit(Shape(4, 1, "product"), owner="bob", name="late"))
    world.run(5.0)
    world.generate(world.submit(
        Shape(2, 1, "product"), owner="ann", name="urgent", executor="grid", priority=3
    ))  # fmt: skip
    world.run(5.0)
    take(world, want=4)
    take(world, want=2)
    rows = world.connection.execute(
        "select j.owner, j.name from lease l join job j on j.id = l.job order by l.rowid"
    ).fetchall()
    assert [owner for owner, _ in rows] == ["ann", "bob"] * 3
    assert [name for owner, name in rows if owner == "ann"] == ["urgent", "urgent", "one"]
    kept = world.connection.execute("select distinct executor from fair").fetchall()
    assert kept == [("ray",)], "turns at volunteers are not paid for here"
