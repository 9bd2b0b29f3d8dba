"""Every executor keeps the same promises, whoever computes behind it.

A job is given to an executor inside a running node: leased, then finished, failed or cancelled,
each said; what vanishes is computed again; the numbers are the same; nothing stays behind. The same
promises on a real Ray cluster: `tests/e2e/test_ray.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.errors import EngineError
from gpugoblin.graph.dtypes import EVERY_DTYPE
from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.lease import Abandon
from tests.helpers.executors import EXECUTORS, Party, Shifted, settings_of
from tests.helpers.hands import Hands
from tests.helpers.lab import Lab, grid_settings, leases_of, product, row_sums, until
from tests.helpers.node import LabNode

__all__: list[str] = []

UNFIT = EngineError("does_not_fit", needed_bytes=2, memory_bytes=1)


@pytest.fixture(params=EXECUTORS)
def party(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Party]:
    name, clock = request.param, Shifted()
    given = {**grid_settings(), **settings_of(name)}
    link = Hands("first") if name == "ray" else None
    with LabNode(tmp_path, clock=clock, link=link, **given) as node:
        lab = Lab(node, tmp_path)
        made = Party(lab, name, clock)
        yield made
        made.close()
        lab.client.close()
    assert link is None or link.stopped


def test_a_job_is_computed_and_each_lease_is_told(party: Party) -> None:
    job = party.submit()
    party.compute()
    assert party.lab.wait(job).state == "done"
    until(lambda: "finished" in party.kinds())
    leased = [event.lease for event in party.seen if event.kind == "leased"]
    finished = [event.lease for event in party.seen if event.kind == "finished"]
    assert finished
    assert set(finished) <= set(leased)
    assert party.kinds().index("leased") < party.kinds().index("finished")


def test_what_fails_is_told_and_tried_again(party: Party) -> None:
    party.submit()
    party.compute(fails="engine_failed")
    until(lambda: "failed" in party.kinds())
    assert "finished" not in party.kinds()


def test_cancel_is_acknowledged_and_nothing_of_it_is_used(party: Party) -> None:
    job = party.submit()
    party.lease_only()
    until(lambda: "leased" in party.kinds())
    ended = party.lab.client.call("POST", f"/v1/jobs/{job.job}/cancel", JobInfo)
    assert ended.state == "cancelled"
    until(lambda: "cancelled" in party.kinds())
    party.compute()
    time.sleep(0.1)
    assert party.lab.job(job.job).used == 0


def test_cancelling_what_nobody_knows_changes_nothing(party: Party) -> None:
    party.lab.node.loop.call_soon_threadsafe(party.executor.cancel, "lease_nobody")
    job = party.submit()
    party.compute()
    assert party.lab.wait(job).state == "done"


def test_capabilities_say_what_a_plan_must_respect(party: Party) -> None:
    fleet = party.lab.node.call(party.executor.capabilities())
    assert fleet.memory_bytes >= fleet.slot_bytes > 0
    assert fleet.engines == (0 if party.name == "grid" else 1)
    if party.name == "grid":
        with party.lab.device() as device:
            device.exchange()
        fleet = party.lab.node.call(party.executor.capabilities())
        assert fleet.engines == 1
        assert fleet.flops_per_s == 1e12
    assert fleet.dtypes & EVERY_DTYPE.mask()


def test_who_joins_in_the_middle_is_used(party: Party) -> None:
    """Where the number of engines is the executor's to change."""
    if party.name == "local":
        assert party.lab.node.call(party.executor.capabilities()).engines == 1
        return
    if party.hands is not None:
        party.lab.node.call(party.hands.lose("first"))
    before = party.lab.node.call(party.executor.capabilities()).engines
    assert before == 0
    job = party.submit()
    time.sleep(0.1)
    assert party.lab.job(job.job).used == 0
    party.open()
    party.join()
    party.join()
    assert party.lab.wait(job).state == "done"
    assert party.lab.node.call(party.executor.capabilities()).engines == 2


def test_a_lost_worker_costs_its_running_tasks_only(party: Party) -> None:
    a, b, graph = product(64, 32, 48)
    inputs = (party.lab.file(a, "a.npy"), party.lab.file(b, "b.npy"))
    job = party.give(graph, *inputs)
    party.lease_only()
    until(lambda: "leased" in party.kinds())
    time.sleep(0.1)
    party.lose_holder()
    party.open()
    party.join()
    ended = party.lab.wait(job)
    assert ended.state == "done"
    np.testing.assert_allclose(party.lab.result(ended.outputs[0]), a @ b, rtol=1e-5, atol=1e-5)
    assert party.kinds().count("finished") == ended.tasks


def test_results_are_bit_for_bit_those_of_the_operator(party: Party) -> None:
    values = np.random.default_rng(3).integers(-1000, 1000, (40, 33)).astype(np.int64)
    job = party.give(row_sums((40, 33), "int64"), party.lab.file(values, "i.npy"),
                     numeric_class="exact")  # fmt: skip
    party.compute()
    ended = party.lab.wait(job)
    assert ended.state == "done"
    assert np.array_equal(party.lab.result(ended.outputs[0]), values.sum(1))


def test_what_an_engine_cannot_hold_is_given_to_another(party: Party) -> None:
    """`does_not_fit` blames nobody, and the same engine is not asked for it again."""
    job = party.submit()
    if party.name == "grid":
        with party.lab.device() as device:
            (lease,) = leases_of(device)
            device.exchange(abandons=(Abandon(lease.lease, "does_not_fit"),))
            until(lambda: "failed" in party.kinds())
            assert not any(device.exchange(want=1).leases for _ in range(5))
    else:
        party.fail(UNFIT, times=1)
        party.open()
        until(lambda: "failed" in party.kinds())
    if party.hands is not None:
        time.sleep(0.1)
        assert party.hands.done == []
    party.join()
    ended = party.lab.wait(job)
    assert ended.state == "done"
    assert ended.lost.rejected == 0


def test_nothing_stays_behind(party: Party) -> None:
    job = party.submit(4)
    party.compute()
    ended = party.lab.wait(job)
    assert ended.state == "done"
    node = party.lab.node
    live = "select count(*) from lease where state in ('issued', 'committed', 'uploaded')"
    until(lambda: node.read(live) == [(0,)])
    party.lab.client.fetch("DELETE", f"/v1/jobs/{job.job}", max_bytes=100)
    until(lambda: node.read("select count(*) from blob where refs > 0") == [(0,)])
    until(lambda: not list(node.node.blobs.names()))
    assert party.kinds().count("leased") == party.kinds().count("finished") == ended.tasks
