"""Tasks from plans: windows, packed regions, inputs that arrive."""

from __future__ import annotations

from gpugoblin.plan.spec import Region
from server_stub.node.state import tasks
from server_stub.node.state.words import RunWork, Step
from tests.simulation.invariants import check
from tests.simulation.world import Shape, World

__all__: list[str] = []


def batch(shape: Shape, *indices: int) -> list[tuple[object, str, int]]:
    return [(shape.task(i), shape.graph, shape.consumers(i)) for i in indices]


def test_a_box_is_written_and_read() -> None:
    for region in (Region((0, 5), (3, 9)), Region((), ())):
        assert tasks.read_box(tasks.box_text(region)) == region


def test_a_task_that_is_taken_is_its_row_as_it_stands_then(world: World) -> None:
    job = world.submit(Shape(2, 1, "product"))
    world.generate(job)
    world.run(5.0)

    def body(step: Step) -> None:
        (row, _) = step.tx.rows(f"select {tasks.COLUMNS} from task order by id")  # noqa: S608
        assert tasks.move(step, row[0], ("ready",), "leased")
        assert tasks.taken(row, step.now_s) == tasks.load(step.tx, row[0])

    world.now_s += 7.0
    world.handle(body)


def test_a_batch_twice_is_one_batch(world: World) -> None:
    shape = Shape(4)
    job = world.submit(shape)
    made = batch(shape, 0, 1)
    assert world.handle(lambda s: tasks.generate(s, job, 0, made)) == 2  # type: ignore[arg-type]
    assert world.handle(lambda s: tasks.generate(s, job, 0, made)) == 0  # type: ignore[arg-type]
    assert world.connection.execute("select count(*) from task").fetchone() == (2,)
    assert world.connection.execute("select cursor from job").fetchone() == (2,)


def test_grid_tasks_wait_for_packed_inputs_and_local_ones_do_not(world: World) -> None:
    for executor, expected in (("grid", "waiting"), ("local", "ready")):
        shape = Shape(1)
        job = world.submit(shape, executor=executor, name=executor)
        world.handle(lambda s, j=job, p=shape: tasks.generate(s, j, 0, batch(p, 0)))  # type: ignore[misc,arg-type]
        row = world.connection.execute("select state from task where job = ?", (job,)).fetchone()
        assert row == (expected,)
    world.run(5.0)
    states = {row[0] for row in world.connection.execute("select state from task").fetchall()}
    assert states == {"ready"}
    check(world)


def test_one_region_is_packed_once_for_all_its_tasks(world: World) -> None:
    class Shared(Shape):
        """Every task reads the same box."""

        def task(self, index: int) -> object:  # type: ignore[override]
            from dataclasses import replace

            from gpugoblin.plan.spec import ArrayRegion

            box = Region((0,), (2,))
            return replace(super().task(index), inputs=(ArrayRegion(0, box),))

    shape = Shared(5)
    job = world.submit(shape)
    effects: list[object] = []

    def body(step: Step) -> None:
        tasks.generate(step, job, 0, batch(shape, *range(5)))  # type: ignore[arg-type]
        effects.extend(step.effects)

    world.handle(body)
    assert len([e for e in effects if isinstance(e, RunWork)]) == 1
    world.run(5.0)
    assert world.connection.execute("select refs from blob").fetchall() == [(5,)]
    check(world)


def test_an_array_that_changes_is_noticed(world: World) -> None:
    shape = Shape(1)
    job = world.submit(shape)
    world.handle(lambda s: tasks.generate(s, job, 0, batch(shape, 0)))  # type: ignore[arg-type]
    assert world.handle(lambda s: tasks.note_region(s, 1, "a" * 64, 8))
    assert world.handle(lambda s: tasks.note_region(s, 1, "a" * 64, 8))
    assert not world.handle(lambda s: tasks.note_region(s, 1, "b" * 64, 8))
    assert not world.handle(lambda s: tasks.prepared(s, 1, "b" * 64, 8))


def test_a_packed_region_that_nobody_wants_any_more_goes(world: World) -> None:
    from server_stub.node.state import jobs

    shape = Shape(1)
    job = world.submit(shape)
    world.handle(lambda s: tasks.generate(s, job, 0, batch(shape, 0)))  # type: ignore[arg-type]
    world.handle(lambda s: jobs.cancel(s, job))
    blob = world.store("r(0,)|packed")
    world.handle(lambda s: tasks.prepared(s, 1, blob, 8))
    assert world.files == {}


def test_a_state_moves_only_from_where_it_may(world: World) -> None:
    shape = Shape(1)
    job = world.submit(shape, executor="local")
    world.handle(lambda s: tasks.generate(s, job, 0, batch(shape, 0)))  # type: ignore[arg-type]
    assert not world.handle(lambda s: tasks.move(s, 1, ("leased", "checking"), "verified"))
    assert world.handle(lambda s: tasks.move(s, 1, ("ready",), "leased"))
