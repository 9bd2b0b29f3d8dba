"""Jobs: names, ends, and what is left of them."""

from __future__ import annotations

import pytest

from gpugoblin.errors import NodeError
from server_stub.node.state import ended, jobs
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.invariants import check
from tests.simulation.world import Device, Shape, World, party

__all__: list[str] = []


def counts(world: World, table: str) -> int:
    statement = {"task": "select count(*) from task", "lease": "select count(*) from lease",
                 "event": "select count(*) from event", "array": "select count(*) from array",
                 "blob": "select count(*) from blob where refs > 0",
                 "region": "select count(*) from region"}[table]  # fmt: skip
    return int(world.connection.execute(statement).fetchone()[0])


def needless(world: World) -> list[str]:
    """Blobs that are no verified intermediate which a task still has to read."""
    rows = world.connection.execute(
        "select hash from blob where refs > 0 and hash not in (select o.blob from task_output o"
        " join task t on t.id = o.task where t.state in ('verified', 'used') and o.array is null"
        " and o.blob is not null and t.consumers_left > 0)"
    ).fetchall()
    return [row[0] for row in rows]


def busy(world: World) -> str:
    """A job in the middle of everything."""
    job = world.submit(Shape(6, 2, "recompute"))
    world.every(1.0, world.tick)
    for number in range(3):
        world.device_turn(Device(party(number), slow_s=2.0))
    world.run(20.0, lambda: check(world))
    return job


def test_cancel_ends_everything_and_holds_nothing(world: World) -> None:
    job = busy(world)
    assert world.handle(lambda step: jobs.cancel(step, job))
    assert not world.handle(lambda step: jobs.cancel(step, job))
    check(world)
    assert needless(world) == []
    live = world.connection.execute(
        "select count(*) from lease where state in ('issued', 'committed', 'uploaded')"
    ).fetchone()
    assert live == (0,)
    world.run(100.0, lambda: check(world))
    assert needless(world) == []
    assert world.state_of(job) == "cancelled"
    world.handle(lambda step: ended.give_up(step, job))
    check(world)
    assert counts(world, "blob") == 0


def test_failing_names_the_task_and_the_cause(world: World) -> None:
    job = busy(world)
    world.handle(lambda step: jobs.fail(step, job, "disk_failed", 0, "why"))
    info = jobs.info(SqliteTx(world.connection), job)
    assert (info.state, info.error_code, info.error_text) == ("failed", "disk_failed", "why")
    assert needless(world) == []
    check(world)


def test_delete_leaves_no_row(world: World) -> None:
    job = busy(world)
    dead = world.handle(lambda step: jobs.delete(step, job))
    assert [row.job for row in dead] == [job]
    for table in ("task", "lease", "event", "blob", "region"):
        assert counts(world, table) == 0, table
    assert counts(world, "array") == 1, "the input stays"
    world.run(50.0)
    with pytest.raises(NodeError):
        jobs.info(SqliteTx(world.connection), job)


def test_an_ended_job_frees_its_name(world: World) -> None:
    job = world.submit(Shape(1), name="same")
    world.handle(lambda step: jobs.cancel(step, job))
    world.connection.execute("delete from array")
    again = world.submit(Shape(1), name="same")
    assert again != job
    tx = SqliteTx(world.connection)
    assert jobs.find(tx, "alice", "same") == again
    assert jobs.find(tx, "alice", job) == job
    with pytest.raises(NodeError):
        jobs.find(tx, "bob", "same")


def test_a_job_is_done_only_when_every_task_is_used(world: World) -> None:
    job = world.submit(Shape(1))
    world.handle(lambda step: jobs.finish(step, job))
    assert world.state_of(job) == "running"


def test_a_finished_job_shows_its_outputs_complete(world: World) -> None:
    job = world.submit(Shape(2, 1, "product"), executor="local")
    world.every(1.0, world.tick)
    world.every(1.0, world.local_engine)
    world.run(60.0, lambda: check(world))
    info = jobs.info(SqliteTx(world.connection), job)
    assert info.state == "done"
    assert info.outputs[0].complete
    assert info.outputs[0].verified
    assert jobs.running(SqliteTx(world.connection)) == []
    assert [shown.job for shown in jobs.shown(SqliteTx(world.connection), "alice")] == [job]
    assert jobs.shown(SqliteTx(world.connection), "bob") == ()


def test_cancelling_a_job_cancels_its_children_and_theirs(world: World) -> None:
    first = world.submit(Shape(2, 1, "product"), name="first")
    child = world.submit(Shape(2, 1, "product"), name="child", parent="first")
    grand = world.submit(Shape(2, 1, "product"), name="grand", parent=child)
    other = world.submit(Shape(2, 1, "product"), name="other")
    states = "select id, state from job"
    assert world.handle(lambda step: jobs.cancel(step, first))
    found = dict(world.connection.execute(states).fetchall())
    assert found == {first: "cancelled", child: "cancelled", grand: "cancelled", other: "running"}


def test_children_end_with_a_parent_that_is_done_and_is_cancelled_later(world: World) -> None:
    first = world.submit(Shape(2, 1, "product"), name="first")
    child = world.submit(Shape(2, 1, "product"), name="child", parent=first)
    world.connection.execute("update job set state = 'done' where id = ?", (first,))
    assert not world.handle(lambda step: jobs.cancel(step, first))
    assert world.connection.execute("select state from job where id = ?", (child,)).fetchone() == (
        "cancelled",
    )


def test_a_parent_is_an_own_job_that_has_not_failed(world: World) -> None:
    world.submit(Shape(2, 1, "product"), name="theirs", owner="bob")
    for parent, code in (("theirs", "unknown_job"), ("nothing", "unknown_job")):
        with pytest.raises(NodeError) as caught:
            world.submit(Shape(2, 1, "product"), name="child", parent=parent)
        assert caught.value.code == code
    first = world.submit(Shape(2, 1, "product"), name="first")
    world.handle(lambda step: jobs.cancel(step, first))
    with pytest.raises(NodeError) as caught:
        world.submit(Shape(2, 1, "product"), name="child", parent=first)
    assert caught.value.code == "parent_ended"
    assert world.connection.execute("select count(*) from job").fetchone() == (2,)
