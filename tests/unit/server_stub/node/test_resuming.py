"""Jobs that ended and are submitted again: they go on where they stood, or start anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.errors import StoreError
from gpugoblin.wire.messages.job import ArrayInfo, JobEvents, JobInfo, OutputSave
from server_stub.node import room
from server_stub.node.state import ended, quotas
from server_stub.node.state.words import RunWork
from server_stub.node.work import Compute, Work
from tests.helpers.lab import DISK_FULL, Lab, died, grid_settings, on_grid, product, refused, until
from tests.helpers.node import LabNode, Workers

__all__: list[str] = []


class Stopping(Workers):
    """Workers that stop computing after some tasks, and count what they compute."""

    limit = 3
    computed = 0

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.goes_on = False

    async def run(self, work: Work) -> Any:
        if isinstance(work, Compute):
            while self.computed >= self.limit and not self.goes_on:
                await asyncio.sleep(0.01)  # or until it is cancelled
            self.computed += 1
        return await super().run(work)


class Case:
    """A lab with a product of many tasks that stops after three of them."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self.lab = lab
        self.place = root / "c.npy"
        self.a, self.b, self.graph = product(2000, 16, 1500)
        self.inputs: tuple[ArrayInfo, ...] = (lab.file(self.a, "a.npy"), lab.file(self.b, "b.npy"))

    @property
    def workers(self) -> Stopping:
        found: Stopping = self.lab.node.workers
        return found

    def submit(self, **fields: Any) -> JobInfo:
        fields = {
            "outputs": (OutputSave("npy", str(self.place)),), "name": "c", "executor": "local",
            **fields,
        }  # fmt: skip
        return self.lab.submit(self.graph, *self.inputs, **fields)

    def half(self) -> JobInfo:
        """The job when three of its tasks are used."""
        job = self.submit()
        until(lambda: self.lab.job(job.job).used >= 3)
        assert job.tasks > 4
        return self.lab.job(job.job)

    def cancel(self, job: JobInfo) -> JobInfo:
        return self.lab.client.call("POST", f"/v1/jobs/{job.job}/cancel", JobInfo)

    def finish(self, job: JobInfo) -> None:
        self.workers.goes_on = True
        done = self.lab.wait(job)
        assert done.state == "done", done.error_text
        assert done.verified == done.used == done.tasks
        np.testing.assert_allclose(np.load(self.place), self.a @ self.b, rtol=1e-4, atol=1e-4)
        assert self.leftovers() == []

    def leftovers(self) -> list[str]:
        return [path.name for path in self.place.parent.glob(".c.npy.*")]


@contextlib.contextmanager
def lab_case(root: Path) -> Iterator[Case]:
    workers = Stopping(root / "state" / "blobs")
    with LabNode(root, workers=workers, **grid_settings(), slot_bytes=2**20) as node:
        lab = Lab(node, root)
        yield Case(lab, root)
        lab.client.close()


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with lab_case(tmp_path) as made:
        yield made


def test_a_cancelled_job_goes_on_where_it_stood(case: Case) -> None:
    job = case.half()
    over = case.cancel(job)
    assert (over.state, over.verified) == ("cancelled", 3)
    assert case.leftovers(), "kept under its temporary name"
    assert not case.place.exists()
    again = case.submit()
    assert again.job == job.job
    assert (again.state, again.verified, again.attached) == ("running", 3, False)
    case.finish(again)
    assert case.workers.computed == job.tasks, "nothing was computed twice"
    events = case.lab.client.call("GET", "/v1/jobs/c/events", JobEvents).events
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [e.detail for e in events if e.kind == "started"] == ["", "resumed"]
    assert case.submit().attached


def test_a_failed_job_goes_on_where_it_stood(case: Case) -> None:
    job = case.half()
    case.workers.meddle = lambda item: died() if isinstance(item, Compute) else None
    case.workers.goes_on = True
    ended = case.lab.wait(job)
    assert (ended.state, ended.error_code) == ("failed", "engine_died")
    assert 3 <= ended.verified < ended.tasks
    case.workers.meddle = lambda item: None
    again = case.submit()
    assert again.job == ended.job
    assert (again.verified, again.error_code) == (ended.verified, "")
    case.finish(again)


def test_a_result_whose_place_was_taken_is_named_when_it_is_free(case: Case) -> None:
    job = case.half()
    case.place.write_text("somebody else's")
    case.workers.goes_on = True
    until(lambda: case.workers.computed == 3)
    case.cancel(job)
    refused("array_exists", case.submit)
    case.place.unlink()
    job = case.submit()
    case.place.write_text("once more")
    ended = case.lab.wait(job)
    assert (ended.state, ended.error_code, ended.used) == ("failed", "array_exists", ended.tasks)
    computed = case.workers.computed
    refused("array_exists", case.submit)
    case.place.unlink()
    case.finish(case.submit())
    assert case.workers.computed == computed


def test_it_goes_on_after_the_node_was_started_again(tmp_path: Path) -> None:
    with lab_case(tmp_path) as case:
        job = case.half()
        case.cancel(job)
        first = (case.a, case.b, case.inputs)
    with lab_case(tmp_path) as case:
        case.a, case.b, case.inputs = first
        again = case.submit()
        assert (again.job, again.verified) == (job.job, 3)
        case.finish(again)
        assert case.workers.computed == job.tasks - 3


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_without_its_unfinished_result_it_starts_anew(case: Case, damage: str) -> None:
    job = case.half()
    case.cancel(job)
    (name,) = case.leftovers()
    if damage == "gone":
        (case.place.parent / name).unlink()
    else:
        with (case.place.parent / name).open("r+b") as file:
            file.truncate(1000)
    again = case.submit()
    assert again.job != job.job
    assert again.verified == 0
    case.finish(again)


def test_another_executor_and_other_content_start_anew(case: Case) -> None:
    job = case.half()
    case.cancel(job)
    on_volunteers = on_grid(
        case.lab, case.graph, *case.inputs, name="c",
        outputs=(OutputSave("npy", str(case.place)),),
    )  # fmt: skip
    assert on_volunteers.job != job.job
    until(lambda: len(case.leftovers()) == 1)
    case.cancel(on_volunteers)
    other = case.submit(numeric_class="bfloat16")
    assert other.job not in (job.job, on_volunteers.job)
    assert case.lab.job(job.job).state == "cancelled", "it is still known by its id"
    until(lambda: len(case.leftovers()) == 1)


def test_less_memory_than_its_plan_needs_starts_anew(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = case.half()
    case.cancel(job)
    node = case.lab.node.node
    fleet = node.local._fleet
    monkeypatch.setattr(
        node.local, "_fleet", type(fleet)(**{**_fields(fleet), "slot_bytes": 2**16,
                                             "memory_bytes": 2**18}),
    )  # fmt: skip
    again = case.submit()
    assert again.job != job.job
    case.finish(again)


def _fields(fleet: Any) -> dict[str, Any]:
    return {name: getattr(fleet, name) for name in fleet.__dataclass_fields__}


def test_deleting_it_deletes_what_it_kept(case: Case) -> None:
    job = case.half()
    case.cancel(job)
    assert len(case.leftovers()) == 1
    case.lab.client.fetch("DELETE", f"/v1/jobs/{job.job}", max_bytes=1024)
    assert case.leftovers() == []


def test_a_job_without_a_name_keeps_nothing(case: Case) -> None:
    job = case.submit(name=None)
    until(lambda: case.lab.job(job.job).used >= 3)
    case.cancel(job)
    until(lambda: case.leftovers() == [])


def test_kept_results_give_way_to_a_job_that_needs_the_space(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = case.half()
    case.cancel(job)

    monkeypatch.setattr(room, "free_bytes", lambda _: 100 if case.leftovers() else 10**12)
    case.workers.goes_on = True
    other = case.lab.wait(
        case.submit(name="other", outputs=(OutputSave("npy", str(case.place.parent / "d.npy")),))
    )
    assert other.state == "done"
    assert case.leftovers() == []
    assert case.lab.job(job.job).state == "cancelled"


def test_kept_results_give_way_when_the_disk_is_full(case: Case) -> None:
    job = case.half()
    case.cancel(job)
    case.workers.meddle = lambda item: (
        StoreError("disk_full", **DISK_FULL)
        if isinstance(item, Compute) and case.leftovers()
        else None
    )
    case.workers.goes_on = True
    case.submit(name="other", outputs=(OutputSave(),))
    until(lambda: case.leftovers() == [])


def test_writing_under_way_is_waited_for(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    job = case.half()
    case.cancel(job)
    node = case.lab.node.node
    (task,) = case.lab.node.read("select id from task where state = 'cancelled' limit 1")[0]
    order: list[str] = []

    async def stand_in() -> None:
        await asyncio.sleep(0.2)
        order.append("written")
        node.work._running.pop("check.x")
        node.work._effects.pop("check.x")

    async def begin() -> None:
        node.work._running["check.x"] = asyncio.ensure_future(stand_in())
        node.work._effects["check.x"] = (RunWork("check", task, "old"), 0.0)

    case.lab.node.call(begin())
    again = case.submit()
    assert order == ["written"]
    case.finish(again)


def test_a_retry_goes_on_without_a_new_submission(case: Case) -> None:
    job = case.half()
    assert not case.lab.summary(job.job).can_retry
    case.cancel(job)
    assert case.lab.summary(job.job).can_retry
    again = case.lab.client.call("POST", f"/v1/jobs/{job.job}/retry", JobInfo)
    assert (again.job, again.state, again.verified) == (job.job, "running", 3)
    case.finish(again)
    assert case.workers.computed == job.tasks, "nothing was computed twice"


def test_what_is_not_kept_is_not_retried(case: Case) -> None:
    job = case.half()
    path = f"/v1/jobs/{job.job}/retry"
    refused("job_not_kept", lambda: case.lab.client.call("POST", path, JobInfo))
    case.cancel(job)
    node = case.lab.node
    node.call(node.node.handle(lambda step: ended.give_up(step, job.job)))
    assert not case.lab.summary(job.job).can_retry
    refused("job_not_kept", lambda: case.lab.client.call("POST", path, JobInfo))
    refused("unknown_job", lambda: case.lab.client.call("POST", "/v1/jobs/x/retry", JobInfo))


def test_going_on_is_within_the_quota(case: Case) -> None:
    job = case.half()
    case.cancel(job)
    node = case.lab.node

    def limit(tasks: int | None) -> None:
        given = quotas.Limits(tasks=tasks)
        node.call(node.node.handle(lambda step: quotas.set_limits(step.tx, job.owner, given)))

    limit(job.tasks - 4)
    path = f"/v1/jobs/{job.job}/retry"
    refused("quota_tasks", lambda: case.lab.client.call("POST", path, JobInfo))
    refused("quota_tasks", case.submit)
    assert case.lab.job(job.job).state == "cancelled"
    assert case.leftovers(), "what was verified is kept"
    limit(job.tasks - 3)
    case.finish(case.lab.client.call("POST", path, JobInfo))


def test_who_is_over_the_quota_makes_nobody_give_way(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = case.half()
    case.cancel(job)
    node = case.lab.node
    given = quotas.Limits(tasks=2)
    node.call(node.node.handle(lambda step: quotas.set_limits(step.tx, job.owner, given)))

    monkeypatch.setattr(room, "free_bytes", lambda _: 100 if case.leftovers() else 10**12)
    places = (OutputSave("npy", str(case.place.parent / "d.npy")),)
    refused("quota_tasks", lambda: case.submit(name="other", outputs=places))
    assert case.leftovers(), "what was verified is kept"
    assert case.lab.summary(job.job).can_retry
