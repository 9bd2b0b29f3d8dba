"""Rows of what the disk was promised for: submissions, results of running jobs, uploads, blobs."""

from __future__ import annotations

from server_stub.node.state import blobs, room
from server_stub.node.state.room import Promise
from tests.simulation.world import World

__all__: list[str] = []

_ARRAY = (
    "insert into array(id, owner, source, kind, path, member, offset_bytes, dtype, shape,"
    " fingerprint, stored_bytes, complete, ours, final_path, overwrite, job, number, created_s)"
    " values(?, 'ann', ?, ?, ?, '', 0, 'float32', '[10, 3]', '', 0, 0, ?, ?, 0, ?, 0, 0)"
)
_JOB = (
    "insert into job(id, owner, state, graph, content, inputs, numeric_class, assurance, executor,"
    " constraints, priority, limits, speculative, plan, tasks, used, created_s)"
    " values(?, 'ann', ?, '', '', '[]', '', '', 'grid', '{}', 0, '', 0, '{}', 4, 1, 0)"
)


def promises(world: World) -> list[Promise]:
    return world.handle(lambda step: room.promised(step.tx))


def change(world: World, statement: str, *values: str | int | None) -> None:
    world.handle(lambda step: step.tx.change(statement, values))


def test_a_note_counts_until_its_job_is_there_or_it_is_dropped(world: World) -> None:
    one = world.handle(lambda step: room.note(step, [("/a", 5), ("/b", 7)]))
    two = world.handle(lambda step: room.note(step, [("/a", 9)]))
    assert sorted(promises(world)) == [Promise("/a", 5), Promise("/a", 9), Promise("/b", 7)]
    world.handle(lambda step: room.drop(step, two))
    assert len(promises(world)) == 2
    change(world, _JOB, "job_a", "running")
    world.handle(lambda step: room.settle(step, one, "job_a", 100))
    assert promises(world) == []
    assert world.handle(lambda step: room.of_blobs(step.tx)) == 100


def test_notes_of_an_earlier_life_go_and_what_jobs_need_stays(world: World) -> None:
    change(world, _JOB, "job_a", "running")
    world.handle(lambda step: room.settle(step, room.note(step, [("/a", 1)]), "job_a", 100))
    world.handle(lambda step: room.note(step, [("/a", 5)]))
    world.handle(room.forget_notes)
    assert promises(world) == []
    assert world.handle(lambda step: room.of_blobs(step.tx)) == 100


def test_results_of_running_jobs_and_uploads_are_promised(world: World) -> None:
    change(world, _JOB, "job_a", "running")
    change(world, _JOB, "job_b", "cancelled")
    change(world, _ARRAY, "array_a", "node", "npy", "/n/a.npy", 1, "/n/a.npy", "job_a")
    change(world, _ARRAY, "array_b", "zarr", "zarr", "/r/.b", 0, "/r/b", "job_a")
    change(world, _ARRAY, "array_c", "zarr", "zarr", "/r/.c", 0, "/r/c", "job_b")
    change(world, _ARRAY, "array_d", "upload", "raw", "/n/d.raw", 1, "/n/d.raw", None)
    assert sorted(promises(world)) == [
        Promise("/n/a.npy", 120, is_file=True),
        Promise("/n/d.raw", 120, is_file=True, is_upload=True),
        Promise("/r/.b", 90),
    ]


def test_blobs_that_are_here_need_no_more_room(world: World) -> None:
    for job, state in (("job_a", "running"), ("job_b", "cancelled"), ("job_c", "done")):
        change(world, _JOB, job, state)
        world.handle(lambda step: room.settle(step, "", job, 100))  # noqa: B023
    assert world.handle(lambda step: room.of_blobs(step.tx)) == 100
    world.handle(lambda step: blobs.hold(step, "f" * 64, 70))
    assert world.handle(lambda step: room.of_blobs(step.tx)) == 30
    change(world, "update job set state = 'running' where id = 'job_b'")
    assert world.handle(lambda step: room.of_blobs(step.tx)) == 130
    world.handle(lambda step: room.settle(step, "", "job_a", 0))
    change(world, "update job set state = 'running'")
    assert world.handle(lambda step: room.of_blobs(step.tx)) == 130, "of a done job it went"


def test_weights_of_a_training_that_is_over_are_no_room_of_others(world: World) -> None:
    change(world, _JOB, "job_old", "done")
    change(world, _JOB, "job_a", "running")
    world.handle(lambda step: room.settle(step, "", "job_a", 100))
    for blob, job in (("e" * 64, "job_old"), ("f" * 64, "job_a")):
        world.handle(lambda step: blobs.hold(step, blob, 70))  # noqa: B023
        change(world, "insert into checkpoint values(?, 1, 0, ?)", job, blob)
    assert world.handle(lambda step: room.of_blobs(step.tx)) == 30
