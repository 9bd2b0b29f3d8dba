"""What no row names goes; what one names stays, however late it begins to."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from server_stub.node.keeping import backup
from server_stub.node.keeping.collect import OLD_S, collect, find
from tests.helpers.lab import Lab, row_sums

__all__: list[str] = []


def left(lab: Lab) -> dict[str, Path]:
    """One thing of each kind that nobody needs."""
    settings = lab.node.settings
    blob = lab.node.node.blobs.put(b"nobody's")
    places = {
        "blob": lab.node.node.blobs.path(blob),
        "array": settings.arrays_root / "array_gone.raw",
        "upload": settings.blob_root / "parts" / "lease_gone-0.upload",
        "damaged": settings.state / "damaged" / ("ab" * 32),
        "backup": settings.state / "backup.staging",
    }
    places["damaged"].parent.mkdir()
    places["backup"].mkdir()
    for kind in ("array", "upload", "damaged"):
        places[kind].write_bytes(bytes(9000))
    return places


def age(path: Path) -> None:
    then_s = time.time() - OLD_S - 10
    os.utime(path, (then_s, then_s))


def test_only_what_is_old_and_unnamed_is_found_and_goes(lab: Lab) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    job = lab.wait(lab.submit(row_sums((3, 4)), lab.file(values, "v.npy"), name="kept"))
    places = left(lab)
    assert find(lab.node.settings) == []  # all of it is fresh
    for path in (*places.values(), *lab.node.settings.arrays_root.iterdir()):
        age(path)
    found = find(lab.node.settings)
    assert {free.kind: free.path for free in found} == places
    assert all(free.nbytes >= 9000 for free in found if free.kind in ("array", "upload"))
    assert all(path.exists() for path in places.values())
    assert collect(lab.node.settings, found) == found
    assert not any(path.exists() for path in places.values())
    assert lab.job("kept").job == job.job
    np.testing.assert_allclose(lab.result(job.outputs[0]), values.sum(1))


def test_links_of_a_backup_that_is_being_made_are_not_called_freed(lab: Lab) -> None:
    places = left(lab)
    age(places["backup"])
    found = [free for free in find(lab.node.settings) if free.kind == "backup"]
    assert [free.path for free in found] == [places["backup"]]
    with backup._alone(lab.node.settings):
        assert collect(lab.node.settings, found) == []
    assert places["backup"].exists()
    assert collect(lab.node.settings, found) == found


def test_what_is_named_after_the_look_stays(lab: Lab) -> None:
    places = left(lab)
    for path in places.values():
        age(path)
    found = [free for free in find(lab.node.settings) if free.kind == "blob"]
    name = places["blob"].name
    lab.node.call(
        lab.node.node.handle(
            lambda step: step.tx.change("insert into blob values(?, 8, 1)", (name,))
        )
    )
    assert collect(lab.node.settings, found) == []
    assert places["blob"].exists()
