"""The Ray executor: machines are kept fed, measured, and their loss is said and made good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.errors import NodeError, StoreError
from gpugoblin.graph.dtypes import EVERY_DTYPE
from gpugoblin.wire.messages.job import JobInfo
from server_stub.node.estimate import GUESSED_FLOPS_PER_S
from server_stub.node.executors.ray import OUTSTANDING, RayExecutor
from server_stub.node.work import Compute
from tests.helpers.hands import Hands
from tests.helpers.lab import DISK_FULL, Lab, gate, grid_settings, on_grid, row_sums, until
from tests.helpers.node import LabNode

__all__: list[str] = []

AWAY = NodeError("ray_unreachable", address="h:1", reason="no head")


class Case:
    def __init__(self, lab: Lab, hands: Hands) -> None:
        self.lab, self.hands = lab, hands
        made = lab.node.node.ray
        assert made is not None
        self.executor: RayExecutor = made

    def submit(self, rows: int = 6, **fields: Any) -> JobInfo:
        array = self.lab.file(np.ones((rows, 5), np.float32), f"v{rows}.npy")
        return self.lab.submit(row_sums((rows, 5)), array, executor="ray", **fields)

    def call(self, work: Any) -> Any:
        return self.lab.node.call(work)


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    hands = Hands("a", "b")
    given = {**grid_settings(), "executor": "local, grid, ray", "ray_address": "test:1"}
    with LabNode(tmp_path, link=hands, **given) as node, Lab(node, tmp_path) as lab:
        yield Case(lab, hands)


def test_the_plan_says_where_and_the_fleet_is_what_is_there(case: Case) -> None:
    planned = case.submit(dry_run=True)
    assert planned.plan.executor == "ray"
    fleet = case.call(case.executor.capabilities())
    assert fleet.engines == 2
    assert fleet.flops_per_s == 2 * GUESSED_FLOPS_PER_S
    assert fleet.bytes_per_s == 2e9
    assert case.call(case.executor.capabilities(EVERY_DTYPE.mask() + 2**60)).engines == 0


def test_rates_are_learned_from_what_is_long_enough(case: Case) -> None:
    seats = list(case.hands.seats.values())
    case.executor._learn(seats[0], 10**7, 1.0)
    case.executor._learn(seats[0], 10**10, 0.001)
    assert case.executor._rates == {}
    case.executor._learn(seats[0], 10**10, 1.0)
    case.executor._learn(seats[0], 2 * 10**10, 1.0)
    assert case.executor._rates == {"a": pytest.approx(1.2e10)}
    fleet = case.call(case.executor.capabilities())
    assert fleet.flops_per_s == pytest.approx(2.4e10)


def test_each_machine_has_a_few_tasks_and_no_more(case: Case) -> None:
    case.lab.node.workers.hold = case.call(gate())
    jobs = [case.submit(3 * (n + 1)) for n in range(2 * OUTSTANDING + 3)]
    count = "select device, count(*) from lease where state = 'issued' group by device"
    until(lambda: sum(row[1] for row in case.lab.node.read(count)) == 2 * OUTSTANDING)
    assert case.lab.node.read(count) == [("ray:a", OUTSTANDING), ("ray:b", OUTSTANDING)]
    case.lab.node.loop.call_soon_threadsafe(case.lab.node.workers.hold.set)
    assert all(case.lab.wait(job).state == "done" for job in jobs)


def test_a_job_waits_for_the_cluster_and_says_so(case: Case) -> None:
    case.call(case.hands.lose("a"))
    case.call(case.hands.lose("b", AWAY))
    job = case.submit()
    other = case.lab.submit(
        row_sums((6, 5)), case.lab.file(np.ones((6, 5), np.float32), "l.npy"), executor="local"
    )
    assert case.lab.wait(other).state == "done"  # others go on
    until(lambda: case.lab.job(job.job).error_code == "ray_unreachable")
    case.call(case.hands.add("c"))
    ended = case.lab.wait(job)
    assert (ended.state, ended.error_code) == ("done", "")


def test_a_full_disk_is_waited_for(case: Case) -> None:
    case.executor._retry_s = 0.01
    left = [2]

    def meddle(item: Any) -> StoreError | None:
        if not isinstance(item, Compute):
            return None
        left[0] -= 1
        return StoreError("disk_full", **DISK_FULL) if left[0] >= 0 else None  # type: ignore[arg-type]

    case.lab.node.workers.meddle = meddle
    assert case.lab.wait(case.submit()).state == "done"
    assert left[0] < 0
    assert case.lab.node.read("select max(attempt) from task") == [(0,)]


def test_bytes_that_are_gone_are_computed_again(case: Case) -> None:
    answers = [False]

    class Forgetful:
        """The node, which once does not find what a machine has made."""

        def __getattr__(self, name: str) -> Any:
            return getattr(case.lab.node.node, name)

        def has_blobs(self, names: list[str]) -> bool:
            return answers.pop() if answers else case.lab.node.node.has_blobs(names)

    case.executor._host = Forgetful()  # type: ignore[assignment]
    assert case.lab.wait(case.submit()).state == "done"
    assert answers == []
    assert case.lab.node.read("select max(attempt) from task") == [(1,)]


def test_it_helps_the_volunteers(case: Case) -> None:
    array = case.lab.file(np.ones((6, 5), np.float32), "v.npy")
    ended = case.lab.wait(on_grid(case.lab, row_sums((6, 5)), array))
    assert ended.state == "done"
    assert case.hands.done
    assert ended.credits == 0.0


def test_a_node_that_stops_and_starts_again_goes_on(tmp_path: Path) -> None:
    given = {"executor": "local, ray", "ray_address": "test:1"}
    with LabNode(tmp_path, link=Hands("a"), **given) as node, Lab(node, tmp_path) as lab:
        node.workers.hold = node.call(gate())
        array = lab.file(np.ones((6, 5), np.float32), "v.npy")
        job = lab.submit(row_sums((6, 5)), array, executor="ray")
        until(lambda: node.read("select 1 from lease where state = 'issued'"))
    with LabNode(tmp_path, link=Hands("b"), **given) as node, Lab(node, tmp_path) as lab:
        assert lab.wait(lab.job(job.job)).state == "done"
