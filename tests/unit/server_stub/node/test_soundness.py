"""A part of a result that a disk damaged is never served; it is made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.plan.spec import Region
from gpugoblin.wire.messages.job import ArrayInfo, JobInfo, OutputSave
from server_stub.node import soundness
from server_stub.node.state import arrays
from server_stub.node.state.arrays import ArrayRow
from server_stub.node.store.sqlite import SqliteTx
from tests.helpers.lab import Lab, refused, row_sums
from tests.simulation.world import Shape, World
from tests.unit.server_stub.node.keeping.test_check import flip
from tests.unit.server_stub.node.test_downloads import fold

__all__: list[str] = []


def one(lab: Lab, name: str, **save: Any) -> tuple[JobInfo, ArrayInfo, Path]:
    """A job that is done, its result, and where that lies."""
    array = lab.file(np.ones((6, 5), np.float32), f"{name}.npy")
    job = lab.wait(lab.submit(row_sums((6, 5)), array, name=name, outputs=(OutputSave(**save),)))
    assert job.state == "done"
    ((path,),) = lab.node.read("select path from array where job = ?", job.job)
    return job, job.outputs[0], Path(path)


def test_a_damaged_byte_is_not_served_and_made_again(lab: Lab) -> None:
    job, output, path = one(lab, "sums")
    flip(path, path.stat().st_size - 2)
    refused("result_damaged", lambda: lab.result(output))
    assert lab.wait(lab.job(job.job)).state == "done"
    np.testing.assert_array_equal(lab.result(output), np.full(6, 5, np.float32))


def test_a_container_is_looked_at_too(lab: Lab) -> None:
    job, _, path = one(lab, "sums")
    flip(path, path.stat().st_size - 2)
    place = f"/v1/jobs/{job.job}/outputs.safetensors?output=0"
    refused("result_damaged", lambda: lab.client.fetch("GET", place, max_bytes=1 << 20))
    assert lab.wait(lab.job(job.job)).state == "done"
    assert lab.client.fetch("GET", place, max_bytes=1 << 20).endswith(
        np.full(6, 5, np.float32).tobytes()
    )


def test_what_is_a_researcher_s_own_file_is_theirs_to_change(lab: Lab) -> None:
    _, output, path = one(lab, "sums", format="npy", path=str(lab.root / "mine.npy"))
    assert path == lab.root / "mine.npy"
    flip(path, path.stat().st_size - 2)
    assert lab.result(output)[-1] != 5


def test_a_part_is_looked_at_once_in_a_while(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    damaged = soundness._damaged

    def counted(row: ArrayRow, wanted: Any) -> Any:
        looked.append(len(wanted))
        return damaged(row, wanted)

    monkeypatch.setattr(soundness, "_damaged", counted)
    _, output, path = one(lab, "sums")
    for _ in range(3):
        lab.result(output)
    assert looked == [1]
    flip(path, path.stat().st_size - 2)
    monkeypatch.setattr(soundness, "KEPT_S", 0.0)
    refused("result_damaged", lambda: lab.result(output))


def test_only_parts_that_a_region_touches_are_looked_at(world: World) -> None:
    job = world.submit(Shape(1))
    tx = SqliteTx(world.connection)
    row = arrays.of_job(tx, job)[0]
    fold(world, job, 1, (0, 0), (2, 2))
    fold(world, job, 2, (0, 2), (2, 4))
    fold(world, job, 3, (2, 0), (4, 2))

    def touched(start: tuple[int, int], stop: tuple[int, int]) -> set[int]:
        return {part.task for part in soundness.parts(tx, row, Region(start, stop))}

    assert touched((0, 0), (4, 4)) == {1, 2, 3}
    assert touched((0, 1), (1, 3)) == {1, 2}
    assert touched((1, 2), (4, 4)) == {2}
    assert touched((2, 0), (3, 1)) == {3}
    assert touched((0, 0), (0, 4)) == set()
