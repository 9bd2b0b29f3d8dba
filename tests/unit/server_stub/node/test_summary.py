"""A job in all its figures: they add up, at every moment, and cost little to ask for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import msgspec
import numpy as np

from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.summary import JobSummary
from server_stub.node.summary import Summaries
from tests.helpers.lab import Lab, gate, on_grid, product, row_sums, until, work_until

__all__: list[str] = []


def total(found: JobSummary) -> int:
    return sum(msgspec.structs.astuple(found.tasks))


def many(lab: Lab, **fields: Any) -> JobInfo:
    a, b, graph = product(2000, 16, 1500)
    return on_grid(lab, graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"), **fields)


def test_a_job_before_during_and_after(lab: Lab) -> None:
    lab.node.workers.hold = lab.node.call(gate())
    a, b, graph = product(30, 4, 7)
    job = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"), name="gram")
    until(lambda: lab.job(job.job).leased == 1)
    found = lab.summary("gram")
    assert (found.info.name, found.tasks.leased, total(found)) == ("gram", 1, found.info.tasks)
    assert (found.remaining_s, found.gain, found.can_retry) == (None, 0.0, False)
    lab.node.loop.call_soon_threadsafe(lab.node.workers.hold.set)
    lab.wait(job)
    done = lab.summary("gram")
    assert (done.tasks.used, total(done)) == (done.info.tasks, done.info.tasks)
    (own,) = done.contributors
    assert (own.pseudonym, own.devices, own.accepted, own.open) == ("lab", 1, job.tasks, 0)
    assert own.compute_s == done.compute_s > 0
    assert done.elapsed_s == done.info.finished_s - done.info.started_s  # type: ignore[operator]
    assert done.gain == done.info.plan.alone_s / done.elapsed_s
    assert done.remaining_s is None


def test_contributors_and_stretches_of_a_grid(grid: Lab) -> None:
    job = many(grid)
    with ExitStack() as stack:
        devices = [
            stack.enter_context(grid.device(owner_pseudonym=f"owner_{letter}aaa"))
            for letter in "ab"
        ]
        found = grid.summary(job.job)
        assert (total(found), found.contributors, found.owners) == (job.tasks, (), 0)
        done = work_until(grid, job, devices)
    assert done.state == "done"
    over = grid.summary(job.job)
    assert {one.pseudonym for one in over.contributors} == {"owner_aaaa", "owner_baaa"}
    assert sum(one.accepted for one in over.contributors) == job.tasks
    assert over.owners == 2
    assert sum(one.tasks for one in over.stretches) == job.tasks
    assert [one.verified for one in over.stretches] == [one.tasks for one in over.stretches]


def test_a_cancelled_job_has_no_task_open(lab: Lab) -> None:
    lab.node.workers.hold = lab.node.call(gate())
    a, b, graph = product(30, 4, 7)
    job = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"))
    until(lambda: lab.job(job.job).leased == 1)
    lab.client.call("POST", f"/v1/jobs/{job.job}/cancel", JobInfo)
    found = lab.summary(job.job)
    assert (found.tasks.ended, total(found)) == (job.tasks, job.tasks)
    assert sum(one.ended for one in found.stretches) == job.tasks


def test_the_dear_part_is_kept_for_a_while(lab: Lab) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array))
    asked: list[str] = []

    class Counting:
        def __init__(self, tx: Any) -> None:
            self._tx = tx

        def rows(self, statement: str, parameters: Any = ()) -> Any:
            asked.append(statement)
            return self._tx.rows(statement, parameters)

        def one(self, statement: str, parameters: Any = ()) -> Any:
            return self._tx.one(statement, parameters)

    class Store:
        async def read(self, body: Any) -> Any:
            return await lab.node.node.store.read(lambda tx: body(Counting(tx)))

    async def twice() -> tuple[int, int]:
        summaries = Summaries(Store())  # type: ignore[arg-type]
        await summaries.of(job.job, 10.0)
        first = sum("join lease" in one for one in asked)
        await summaries.of(job.job, 20.0)
        return first, sum("join lease" in one for one in asked)

    assert lab.node.call(twice()) == (2, 2)
