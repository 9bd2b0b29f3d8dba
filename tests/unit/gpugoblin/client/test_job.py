"""Jobs: found again, read early, cancelled, failed, awaited."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.client.job import Job
from gpugoblin.client.session import Session
from gpugoblin.errors import ClientError, NodeError
from gpugoblin.wire.remote import RemoteError
from tests.helpers.fake_node import FakeNode

NUMBERS = np.arange(20, dtype=np.float32).reshape(4, 5)


def submitted(name: str = "gram", **options: object) -> Job:
    job = (gg.array(NUMBERS) @ gg.array(NUMBERS).T).save(name=name, **options)  # type: ignore[arg-type]
    assert isinstance(job, Job)
    return job


def test_a_result_is_read_by_parts(lab: Session) -> None:
    job = submitted().wait()
    expected = NUMBERS @ NUMBERS.T
    array = job.array
    assert (array.shape, array.dtype, array.ndim, len(array)) == ((4, 4), np.float32, 2, 4)
    np.testing.assert_allclose(array[1:3, ::2], expected[1:3, ::2])
    np.testing.assert_allclose(np.asarray(array), expected)
    assert float(array[-1, -1]) == expected[-1, -1]
    assert "gram" in repr(array)


def test_an_early_look_is_refused_clearly(lab: Session, node: FakeNode) -> None:
    node.hold = True
    job = submitted()
    with pytest.raises(RemoteError) as caught:
        job.array[:2, :2]
    assert caught.value.code == "region_not_verified"
    node.finish("gram")
    assert job.array[:2, :2].shape == (2, 2)


def test_outputs_are_counted_from_0(lab: Session) -> None:
    job = submitted()
    assert job.output(0).shape == (4, 4)
    with pytest.raises(ClientError, match="output_unknown"):
        job.output(1)


def test_a_job_is_found_again(lab: Session, node: FakeNode) -> None:
    job = submitted()
    assert gg.get("gram").id == gg.get(job.id).id == job.id
    assert [found.name for found in gg.jobs()] == ["gram"]
    with pytest.raises(RemoteError, match="There is no job other"):
        gg.get("other")


def test_waiting_is_shown_and_ends(lab: Session, node: FakeNode) -> None:
    node.hold = True
    job = submitted()
    assert job.state == "running"
    timer = threading.Timer(0.1, node.finish, ("gram",))
    timer.start()
    assert job.wait(timeout=10) is job
    timer.join()
    assert job.progress().fraction == 1.0
    assert repr(job) == "<job gram: done, 4 of 4 tasks verified>"
    assert "<table>" in job._repr_html_()
    assert "4 of 4" in str(job.progress())


def test_a_job_can_be_awaited_beside_others(lab: Session, node: FakeNode) -> None:
    node.hold = True
    first, second = submitted("a"), submitted("b")
    for name in ("a", "b"):
        threading.Timer(0.05, node.finish, (name,)).start()

    async def both() -> list[Job]:
        return [await first, await second]

    assert asyncio.run(both()) == [first, second]


def test_awaiting_can_be_given_up(lab: Session, node: FakeNode) -> None:
    node.hold = True
    job = submitted()

    async def impatient() -> None:
        await asyncio.wait_for(job, 0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert job.state == "running"


def test_a_failed_job_says_why(lab: Session, node: FakeNode) -> None:
    node.fail_jobs = "input_changed"
    job = submitted()
    with pytest.raises(gg.JobFailed) as caught:
        job.wait()
    assert caught.value.code == "input_changed"
    assert str(caught.value) == (
        "Job 'gram' failed: It cannot be done. When the cause is gone, submit it again: what was "
        "verified is not computed again. job.events() shows what led to it. [input_changed]"
    )
    assert isinstance(caught.value, NodeError)


def test_cancel(lab: Session, node: FakeNode) -> None:
    node.hold = True
    job = submitted()
    job.cancel()
    assert job.state == "cancelled"
    with pytest.raises(ClientError) as caught:
        job.wait()
    assert caught.value.code == "job_cancelled"


def test_delete(lab: Session) -> None:
    submitted().delete()
    assert gg.jobs() == []


def test_events_come_after_a_number(lab: Session) -> None:
    job = submitted()
    assert [event.kind for event in job.events()] == ["submitted", "started", "done"]
    assert [event.number for event in job.events(after=2)] == [3]


def test_a_plan(lab: Session) -> None:
    assert submitted().plan().tasks == 4
    assert gg.estimate(gg.array(NUMBERS).sum()).tasks == 4
    assert gg.jobs()[0].name == "gram"
    assert len(gg.jobs()) == 1


def test_a_finished_job_is_not_asked_again(lab: Session, node: FakeNode) -> None:
    job = submitted()
    before = len(node.requests)
    assert job.state == "done"
    job.wait()
    assert len(node.requests) == before


def test_a_result_is_the_input_of_the_next_job(lab: Session, node: FakeNode) -> None:
    job = submitted()
    uploads = sum(request.startswith("PUT") for request in node.requests)
    total = job.array.lazy().sum().compute()
    np.testing.assert_allclose(total, (NUMBERS @ NUMBERS.T).sum(), rtol=1e-5)
    assert sum(request.startswith("PUT") for request in node.requests) == uploads


def test_a_result_of_one_node_is_no_input_of_another(
    lab: Session, node: FakeNode, short_path: Path
) -> None:
    lazy = submitted().array.lazy()
    with (
        FakeNode(short_path / "other") as other,
        gg.connect(other.address),
        pytest.raises(ClientError, match="array_elsewhere"),
    ):
        lazy.sum().compute()
