"""Every byte against its hash."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from server_stub.node.keeping.check import check, set_aside
from tests.helpers.lab import Lab, on_grid, product, row_sums, until

__all__: list[str] = []


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def begun(grid: Lab) -> list[str]:
    a, b, graph = product(300, 40, 200)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"), name="long")
    until(lambda: grid.node.read("select count(*) from region where stored = 1")[0][0] >= 2)
    return [row[0] for row in grid.node.read("select hash from blob where refs > 0 order by hash")]


def test_blobs_that_changed_were_cut_or_are_gone(grid: Lab) -> None:
    names = begun(grid)
    whole = check(grid.node.settings)
    assert (whole.looked_at, whole.blobs, whole.results) == (len(names), {}, {})
    assert whole.nbytes == sum(grid.node.node.blobs.nbytes(name) for name in names)
    store = grid.node.node.blobs
    flip(store.path(names[0]), 17)
    store.path(names[1]).unlink()
    found = check(grid.node.settings)
    assert found.blobs == {names[0]: "blob_damaged", names[1]: "blob_missing"}


def test_a_damaged_blob_is_set_aside(grid: Lab) -> None:
    name, *_ = begun(grid)
    data = grid.node.node.blobs.path(name).read_bytes()
    place = set_aside(grid.node.settings, name)
    assert place is not None
    assert place.read_bytes() == data
    assert not grid.node.node.blobs.has(name)
    assert set_aside(grid.node.settings, name) is None


def test_parts_of_results(grid: Lab, tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = grid.file(values, "v.npy")
    job = grid.wait(grid.submit(row_sums((3, 4)), array, executor="local"))
    assert check(grid.node.settings).results == {}
    ((text,),) = grid.node.read("select path from array where job = ?", job.job)
    flip(Path(text), Path(text).stat().st_size - 1)
    ((task, slot),) = grid.node.read("select task, slot from fold")
    assert check(grid.node.settings).results == {(task, slot): text}
    Path(text).unlink()
    assert check(grid.node.settings).results == {(task, slot): text}
