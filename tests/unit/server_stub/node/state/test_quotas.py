"""Quotas: what is promised counts, what is over is refused whole, and says whose and how much."""

from __future__ import annotations

import pytest

from gpugoblin.errors import NodeError
from gpugoblin.wire.messages.task import Constraints
from server_stub.node.state import arrays, ended, jobs, quotas
from server_stub.node.state.quotas import Limits, Use
from server_stub.node.state.words import Step
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import Shape, World

__all__: list[str] = []


def limit(world: World, owner: str, limits: Limits) -> None:
    world.handle(lambda step: quotas.set_limits(step.tx, owner, limits))


def begin(world: World, name: str, count: int, owner: str = "ann") -> str:
    return world.submit(Shape(count, 1, "product"), owner=owner, name=name)


def counts(world: World) -> tuple[int, ...]:
    found: tuple[int, ...] = world.connection.execute(
        "select (select count(*) from job), (select count(*) from array),"
        " (select count(*) from event)"
    ).fetchone()
    return found


def test_a_job_over_the_tasks_is_refused_and_leaves_nothing(world: World) -> None:
    limit(world, "ann", Limits(tasks=10))
    job = begin(world, "one", 6)
    before = counts(world)
    with pytest.raises(NodeError) as caught:
        begin(world, "two", 5)
    assert caught.value.code == "quota_tasks"
    assert "ann would have 11 tasks" in caught.value.what
    assert "10" in caught.value.what
    assert counts(world) == before
    begin(world, "three", 4)
    begin(world, "theirs", 100, owner="bob")
    world.handle(lambda step: jobs.cancel(step, job))
    begin(world, "four", 6)


def test_results_count_from_the_moment_they_are_promised(world: World) -> None:
    # A result of `world` has 2 float32 for each task.
    limit(world, "ann", Limits(disk_bytes=100))
    job = begin(world, "one", 10)
    assert quotas.used_by(SqliteTx(world.connection), "ann") == Use(80, 10)
    with pytest.raises(NodeError) as caught:
        begin(world, "two", 3)
    assert caught.value.code == "quota_disk"
    begin(world, "three", 2)
    world.handle(lambda step: jobs.delete(step, job))
    assert quotas.used_by(SqliteTx(world.connection), "ann") == Use(16, 2)


def test_an_upload_counts_whole_from_its_begin(world: World) -> None:
    new = arrays.NewArray(
        "array_up", "ann", "upload", "raw", "/x", "", 0, "float32", (25,), "1" * 64, 0, False, True,
    )  # fmt: skip
    limit(world, "ann", Limits(disk_bytes=99))

    def add(step: Step) -> None:
        arrays.add(step, new)
        quotas.require(step, "ann")

    with pytest.raises(NodeError):
        world.handle(add)
    limit(world, "ann", Limits(disk_bytes=100))
    world.handle(add)


def test_everybody_s_limits_hold_for_who_has_no_own(world: World) -> None:
    limit(world, quotas.EVERYBODY, Limits(disk_bytes=1000, tasks=5))
    limit(world, "ann", Limits(tasks=50))
    tx = SqliteTx(world.connection)
    assert quotas.limits_of(tx, "ann") == Limits(1000, 50)
    assert quotas.limits_of(tx, "bob") == Limits(1000, 5)
    assert quotas.own_limits(tx, "ann") == Limits(None, 50)
    begin(world, "mine", 6)
    with pytest.raises(NodeError):
        begin(world, "theirs", 6, owner="bob")
    limit(world, quotas.EVERYBODY, Limits())
    begin(world, "theirs", 6, owner="bob")
    assert [name for name, _, _ in quotas.listed(tx, 0.0)] == ["", "ann", "bob"]
    for wrong in (Limits(tasks=-2), Limits(disk_bytes=1 << 62), Limits(grid_hours=-0.5)):
        with pytest.raises(NodeError):
            limit(world, "ann", wrong)


def test_going_on_with_an_ended_job_is_judged_as_beginning_it(world: World) -> None:
    limit(world, "ann", Limits(tasks=10))
    job = begin(world, "one", 6)
    world.handle(lambda step: jobs.cancel(step, job))
    other = begin(world, "two", 8)

    def resume() -> bool:
        return world.handle(lambda step: ended.resume(step, job, Constraints(), 0, [False]))

    before = counts(world)
    with pytest.raises(NodeError) as caught:
        resume()
    assert caught.value.code == "quota_tasks"
    assert (world.state_of(job), counts(world)) == ("cancelled", before)
    world.handle(lambda step: jobs.cancel(step, other))
    assert resume()


def test_what_is_given_up_or_replaced_no_longer_counts(world: World) -> None:
    job = begin(world, "one", 10)
    world.handle(lambda step: jobs.cancel(step, job))
    tx = SqliteTx(world.connection)
    assert quotas.used_by(tx, "ann") == Use(80, 0), "it may be taken up again"
    limit(world, "ann", Limits(disk_bytes=100, tasks=5))
    quotas.require_room(tx, "ann", Use(100, 5), "one")
    for more, name in ((Use(101, 5), "one"), (Use(100, 6), "one"), (Use(100, 5), "two"),
                       (Use(100, 5), None)):  # fmt: skip
        with pytest.raises(NodeError):
            quotas.require_room(tx, "ann", more, name)
    world.handle(lambda step: ended.give_up(step, job))
    assert quotas.used_by(tx, "ann") == Use(0, 0)


def test_whoever_has_no_hours_left_begins_nothing_for_volunteers_until_there_are(
    world: World,
) -> None:
    tx = SqliteTx(world.connection)
    now_s = world.now_s
    mine, theirs = begin(world, "mine", 3), begin(world, "theirs", 3, owner="bob")
    limit(world, "ann", Limits(grid_hours=1.0))
    world.handle(lambda step: step.grid_s.update({mine: 3599.0, theirs: 9999.0}))
    quotas.require_grid(tx, "ann", now_s)
    assert quotas.without_hours(tx, now_s) == {}
    world.handle(lambda step: step.grid_s.update({mine: 1.0}))
    with pytest.raises(NodeError) as caught:
        quotas.require_grid(tx, "ann", now_s)
    assert caught.value.code == "quota_grid_hours"
    assert "1.00 hours" in caught.value.what
    owners = quotas.without_hours(tx, now_s)
    assert set(owners) == {"ann"}
    assert quotas.held(tx, owners) == ({mine}, True)
    world.handle(lambda step: quotas.note_held(step, owners))
    assert quotas.held(tx, owners) == ({mine}, False)
    info = jobs.info(tx, mine)
    assert (info.state, info.error_code) == ("running", "quota_grid_hours")
    assert "ann has used 1.00 hours" in info.error_text
    assert jobs.info(tx, theirs).error_code == ""
    assert [use.grid_hours for _, _, use in quotas.listed(tx, now_s)] == [1.0, 9999.0 / 3600]
    next_month_s = now_s + 32 * 24 * 3600.0
    assert quotas.without_hours(tx, next_month_s) == {}
    assert quotas.held(tx, {}) == (frozenset(), True)
    world.handle(lambda step: quotas.note_held(step, {}))
    assert jobs.info(tx, mine).error_code == ""
