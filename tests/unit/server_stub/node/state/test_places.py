"""Notes of places where a crash may leave files."""

from __future__ import annotations

from server_stub.node.state import places
from tests.simulation.world import World

__all__: list[str] = []


def test_a_note_is_there_until_it_is_dropped(world: World) -> None:
    world.handle(lambda step: step.tx.change("insert into meta values('place', 'x')"))
    one = world.handle(lambda step: places.note(step, ["/a/b.npy", '/c/"d~.npy']))
    two = world.handle(lambda step: places.note(step, ["/e.npy"]))
    found = world.handle(lambda step: places.noted(step.tx))
    assert found == {one: ["/a/b.npy", '/c/"d~.npy'], two: ["/e.npy"]}
    world.handle(lambda step: places.drop(step, one))
    assert world.handle(lambda step: list(places.noted(step.tx))) == [two]


def test_no_path_needs_no_note(world: World) -> None:
    assert world.handle(lambda step: places.note(step, [])) == ""
    assert world.handle(lambda step: places.noted(step.tx)) == {}


def test_known_is_what_any_row_names(world: World) -> None:
    before = world.handle(lambda step: places.known(step.tx))
    columns = (
        "id, owner, source, kind, path, member, offset_bytes, dtype, shape, fingerprint,"
        " stored_bytes, complete, ours, final_path, overwrite, created_s"
    )
    row = "'array_x', 'ann', 'npy', 'npy', '/t/.c.npy.result_a', '', 0, 'bool', '[]', '', 0, 0, 0,"
    world.handle(
        lambda step: step.tx.change(f"insert into array({columns}) values({row} '/t/c.npy', 0, 0)")
    )
    found = world.handle(lambda step: places.known(step.tx))
    assert found - before == {"/t/.c.npy.result_a", "/t/c.npy"}
