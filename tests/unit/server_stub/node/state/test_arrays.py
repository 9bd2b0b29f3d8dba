"""Arrays: shared by content, owned by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import pytest

from gpugoblin.errors import NodeError
from server_stub.node.state import arrays
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import Shape, World

__all__: list[str] = []

NEW = arrays.NewArray(
    "array_aaaa", "alice", "npy", "npy", "/in.npy", "", 128, "float32", (2, 3), "a" * 64, 24,
    True, False,
)  # fmt: skip


def test_the_same_content_is_one_array(world: World) -> None:
    first = world.handle(lambda s: arrays.add_input(s, NEW))
    again = world.handle(lambda s: arrays.add_input(s, replace(NEW, id="array_bbbb")))
    assert again.id == first.id == "array_aaaa"
    moved = replace(NEW, id="array_cccc", path="/other.npy")
    assert world.handle(lambda s: arrays.add_input(s, moved)).id == "array_cccc"
    bobs = replace(NEW, id="array_dddd", owner="bob")
    assert world.handle(lambda s: arrays.add_input(s, bobs)).id == "array_dddd"


def test_an_array_has_one_owner(world: World) -> None:
    world.handle(lambda s: arrays.add_input(s, NEW))
    tx = SqliteTx(world.connection)
    assert arrays.of_owner(tx, "alice", "array_aaaa").nbytes == 24
    with pytest.raises(NodeError) as caught:
        arrays.of_owner(tx, "bob", "array_aaaa")
    assert caught.value.code == "unknown_array"


def test_uploads_that_no_job_names_go_after_a_while(world: World) -> None:
    sent = replace(NEW, source="upload", kind="raw", ours=True)
    world.handle(lambda s: arrays.add_input(s, sent))
    world.handle(lambda s: arrays.add_input(s, replace(NEW, id="array_file")))
    world.submit(Shape(1))
    world.connection.execute("update array set ours = 1 where id = 'array_job'")
    assert world.handle(arrays.unused_uploads) == []
    world.now_s += world.rules.unused_upload_s + 1.0
    gone = world.handle(arrays.unused_uploads)
    assert [row.id for row in gone] == ["array_aaaa"], "not files, not what a job names"
    assert world.handle(arrays.unused_uploads) == []


def test_an_upload_grows(world: World) -> None:
    sent = replace(NEW, source="upload", ours=True, complete=False, stored_bytes=0)
    world.handle(lambda s: arrays.add_input(s, sent))
    world.handle(lambda s: arrays.stored(s, "array_aaaa", 8, complete=False))
    info = arrays.as_info(arrays.of_owner(SqliteTx(world.connection), "alice", "array_aaaa"))
    assert (info.stored_bytes, info.complete, info.verified) == (8, False, False)


def test_the_nodes_own_arrays_are_found_where_its_directory_was_moved_to(world: World) -> None:
    own = replace(NEW, ours=True, path="/old/arrays/.b.npy.part", final_path="/old/arrays/b.npy")
    gone = replace(own, id="array_gone", fingerprint="b" * 64, path="", final_path="/old/arrays/c")
    for new in (own, gone):
        world.handle(lambda s, new=new: arrays.add_input(s, new))
    world.handle(lambda s: arrays.add_input(s, replace(NEW, id="array_file")))
    root = PurePath("/new/place/arrays")
    assert world.handle(lambda s: arrays.move_own(s, root)) == 2
    assert world.handle(lambda s: arrays.move_own(s, root)) == 0
    rows = "select path, final_path from array order by id"
    assert world.connection.execute(rows).fetchall() == [
        ("/new/place/arrays/.b.npy.part", "/new/place/arrays/b.npy"),
        ("/in.npy", ""),
        ("", "/new/place/arrays/c"),
    ]
