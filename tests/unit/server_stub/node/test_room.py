"""Two who come at the same moment do not get the same room on the disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo, JobInfo, OutputSave
from gpugoblin.wire.remote import RemoteError
from server_stub.node import results, room
from tests.helpers.lab import Lab, fresh_hex, on_grid, refused, row_sums

__all__: list[str] = []

ROWS = 1000
RESULT_BYTES = 4 * ROWS


class Disk:
    """How much is free, as the node sees it."""

    free = 1 << 40


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, grid: Lab) -> Disk:
    made = Disk()
    reserve = grid.node.settings.reserve_bytes
    monkeypatch.setattr(room, "free_bytes", lambda _: made.free + reserve)
    return made


def begin(lab: Lab, name: str, array: ArrayInfo | None = None) -> JobInfo:
    """A job whose result has many files, of which none takes its room before it is written."""
    array = array or lab.file(np.ones((ROWS, 4), np.float32), "v.npy")
    save = OutputSave("zarr", str(lab.root / f"{name}.zarr"))
    return on_grid(lab, row_sums((ROWS, 4)), array, outputs=(save,), name=name)


def blobs_of(lab: Lab, job: JobInfo) -> int:
    ((text,),) = lab.node.read("select value from meta where key = ?", f"room:{job.job}")
    return int(text)


def test_a_submission_sees_the_one_that_is_under_way(
    grid: Lab, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob_bytes = blobs_of(grid, begin(grid, "before"))
    grid.client.call("POST", "/v1/jobs/before/cancel", JobInfo)
    disk.free = RESULT_BYTES + blob_bytes + 100
    began, go_on = threading.Event(), threading.Event()
    real = results.create

    def slowly(*arguments: Any) -> Any:
        began.set()
        assert go_on.wait(30)
        return real(*arguments)

    monkeypatch.setattr(results, "create", slowly)
    found: list[JobInfo | RemoteError] = []

    def submit() -> None:
        with Lab(grid.node, grid.root) as other:
            found.append(begin(other, "first"))

    thread = threading.Thread(target=submit)
    thread.start()
    assert began.wait(30)
    error = refused("results_do_not_fit", lambda: begin(grid, "second"))
    assert error.status == 507
    go_on.set()
    thread.join(30)
    # It runs, so what it will write is still its own; when it has ended, there is room again.
    assert [job.state for job in found if isinstance(job, JobInfo)] == ["running"]
    refused("results_do_not_fit", lambda: begin(grid, "second"))
    grid.client.call("POST", "/v1/jobs/first/cancel", JobInfo)
    assert begin(grid, "second").state == "running"
    refused("results_do_not_fit", lambda: begin(grid, "first"))


def test_a_submission_that_comes_to_nothing_gives_its_room_back(grid: Lab, disk: Disk) -> None:
    (grid.root / "there.zarr").mkdir()
    refused("array_exists", lambda: begin(grid, "there"))
    assert grid.node.read("select key from meta where key like 'room:%'") == []
    array = grid.file(np.ones((ROWS, 4), np.float32), "v.npy")
    first = begin(grid, "first", array)
    assert begin(grid, "first", array).attached
    keys = grid.node.read("select key from meta where key like 'room:%'")
    assert keys == [(f"room:{first.job}",)]


def test_uploads_hold_room_for_what_is_still_to_come(grid: Lab, disk: Disk) -> None:
    def create(count: int) -> ArrayInfo:
        message = ArrayCreate("upload", "float32", (count,), fresh_hex())
        return grid.client.call("POST", "/v1/arrays", ArrayInfo, body=message)

    disk.free = 10_000
    first = create(2000)
    error = refused("disk_full", lambda: create(2000))
    assert (error.fields["needed_bytes"], error.fields["free_bytes"]) == ("8000", "2000")
    assert create(500).stored_bytes == 0
    # Whoever sends nothing for an hour waits in line again.
    for path in (grid.root / "state" / "arrays").glob("*.raw"):
        os.utime(path, (1.0, 1.0))
    assert create(2000).stored_bytes == 0
    grid.client.upload(f"/v1/arrays/{first.array}/bytes", bytes(8000), ArrayInfo,
                       query={"offset": 0})  # fmt: skip
    refused("disk_full", lambda: create(2000))


def test_a_file_that_has_its_room_misses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert room.missing_bytes(path, 1 << 20) == 1 << 20
    path.write_bytes(b"x" * (1 << 20))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    assert room.missing_bytes(path, 1 << 20) == 0
    assert room.missing_bytes(path, 3 << 20) == 2 << 20
