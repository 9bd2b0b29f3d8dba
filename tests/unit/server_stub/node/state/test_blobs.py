"""References: the last one deletes the file, and a crash in between loses nothing."""

from __future__ import annotations

from server_stub.node.state import blobs
from server_stub.node.state.words import DropBlob, Step
from tests.simulation.world import World

__all__: list[str] = []


def refs(world: World, blob: str) -> int | None:
    row = world.connection.execute("select refs from blob where hash = ?", (blob,)).fetchone()
    return None if row is None else int(row[0])


def test_the_last_reference_deletes_the_file(world: World) -> None:
    blob = world.store("x")
    world.handle(lambda s: blobs.hold(s, blob, 1))
    world.handle(lambda s: blobs.hold(s, blob, 1))
    world.handle(lambda s: blobs.release(s, blob))
    assert blob in world.files
    world.handle(lambda s: blobs.release(s, blob))
    assert blob not in world.files
    world.handle(lambda s: blobs.forget(s, [blob]))
    assert refs(world, blob) is None


def test_a_blob_that_is_wanted_again_is_not_forgotten(world: World) -> None:
    blob = world.store("x")
    world.handle(lambda s: blobs.hold(s, blob, 1))
    world.handle(lambda s: blobs.release(s, blob))
    world.handle(lambda s: blobs.hold(s, blob, 1))
    world.handle(lambda s: blobs.forget(s, [blob]))
    assert refs(world, blob) == 1


def test_after_a_restart_what_nobody_references_is_deleted(world: World) -> None:
    world.connection.execute("insert into blob values('b', 1, 0)")
    seen: list[object] = []

    def body(step: Step) -> None:
        blobs.forgotten(step)
        seen.extend(step.effects)

    world.handle(body)
    assert seen == [DropBlob("b")]


def test_a_file_that_came_after_its_last_reference_goes_and_others_stay(world: World) -> None:
    orphan, named = world.store("orphan"), world.store("named")
    world.handle(lambda s: blobs.hold(s, named, 1))
    for blob in (orphan, named):
        world.handle(lambda s, blob=blob: blobs.drop_unnamed(s, blob))  # type: ignore[misc]
    assert orphan not in world.files
    assert named in world.files
    assert world.handle(lambda s: blobs.known(s.tx)) == {named}


def test_a_file_that_is_needed_again_in_the_same_step_stays(world: World) -> None:
    blob = world.store("x")

    def body(step: Step) -> None:
        blobs.hold(step, blob, 1)
        blobs.release(step, blob)
        blobs.hold(step, blob, 1)

    world.handle(body)
    assert blob in world.files
    assert refs(world, blob) == 1
