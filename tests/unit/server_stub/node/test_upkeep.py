"""The loops: tasks in a window, loops that survive a surprise, a database that is full a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo, JobInfo
from server_stub.node.state.words import Step
from tests.helpers.lab import (
    FullDisk,
    Lab,
    fresh_hex,
    gate,
    grid_settings,
    on_grid,
    product,
    row_sums,
    until,
)
from tests.helpers.node import LabNode

__all__: list[str] = []


def test_a_loop_that_fails_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from server_stub.node.state import verdicts

    calls: list[int] = []

    def stuck(step: Step) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("a surprise")

    monkeypatch.setattr(verdicts, "stuck", stuck)
    with LabNode(tmp_path):
        until(lambda: len(calls) >= 2)


def test_a_long_plan_is_made_in_a_window(tmp_path: Path) -> None:
    with LabNode(tmp_path, window_tasks=8, slot_bytes=2**20) as node, Lab(node, tmp_path) as lab:
        node.workers.hold = node.call(gate())
        a, b, graph = product(60_000, 16, 100)
        job = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"))
        assert job.tasks > 16
        until(lambda: node.read("select count(*) from task")[0][0] >= 8)
        node.loop.call_soon_threadsafe(node.workers.hold.set)
        most = 0
        while job.state == "running":
            job = lab.job(job.job, wait_s=2, after=job.verified)
            open_rows = node.read("select count(*) from task where state in ('ready', 'waiting')")
            most = max(most, open_rows[0][0])
        assert job.state == "done"
        assert most <= 8


def test_a_plan_that_cannot_be_written_now_is_no_fault_of_its_job(tmp_path: Path) -> None:
    with LabNode(tmp_path) as node:
        lab = Lab(node, tmp_path)
        disk = FullDisk(node)
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        generate = node.node.upkeep.generate_some

        async def full_disk(job: str) -> bool:
            disk.is_full = True
            try:
                return await generate(job)
            finally:
                disk.is_full = False
                node.node.upkeep.generate_some = generate  # type: ignore[method-assign]

        node.node.upkeep.generate_some = full_disk  # type: ignore[method-assign]
        job = lab.wait(lab.submit(row_sums((4, 4)), array))
        assert (job.state, disk.refused) == ("done", 1)
        lab.client.close()


def test_a_job_of_very_many_tasks_makes_a_window_of_them_only(tmp_path: Path) -> None:
    shape = (200_000, 1 << 18)  # a sparse file of 200 GB, a row a task
    np.lib.format.open_memmap(tmp_path / "v.npy", mode="w+", dtype=np.float32, shape=shape)
    made: list[int] = []
    given = {**grid_settings(), "window_tasks": 16}
    with LabNode(tmp_path, **given) as node, Lab(node, tmp_path) as lab:
        create = ArrayCreate("npy", "float32", shape, fresh_hex(), str(tmp_path / "v.npy"))
        source = lab.client.call("POST", "/v1/arrays", ArrayInfo, body=create)
        batch = node.node.planner.batch

        def counted(plan: Any, first: int, count: int) -> Any:
            made.append(count)
            return batch(plan, first, count)

        node.node.planner.batch = counted  # type: ignore[method-assign]  # counts, and passes on
        job = on_grid(lab, row_sums(shape), source, name="many")
        assert job.tasks == 200_000
        with lab.device() as device:
            until(lambda: device.work() > 0)
            until(lambda: lab.job("many").verified > 0)
        told = lab.summary("many").tasks
        rows = dict(node.read("select state, count(*) from task group by state"))
        known = sum(rows.values())
        assert told.used == rows["used"] == lab.job("many").verified
        assert told.planned + known == 200_000
        assert known <= 16 + rows["used"] + 8
        assert sum(made) <= known + 32
        lab.client.call("POST", "/v1/jobs/many/cancel", JobInfo)
