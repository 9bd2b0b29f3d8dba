"""A lab node on a real Ray cluster of two machines: killed workers, machines and heads.

Runs where the package `ray` is installed (`GPUGOBLIN_RAY=1 scripts/test`). The promises that every
executor keeps are in `tests/conformance/test_executors.py`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.wire.messages.job import JobInfo
from server_stub.node.executors.ray import OUTSTANDING
from tests.helpers.lab import Lab, product, row_sums
from tests.helpers.ray_cluster import HAS_RAY, RayCluster, wait_until
from tests.helpers.real_node import RealNode

__all__: list[str] = []

pytestmark = [
    pytest.mark.skipif(not HAS_RAY, reason="needs the package ray"),
    pytest.mark.timeout(300),
]

START_S = 90.0
SIZE = 1536


def submit(lab: Lab, executor: str = "ray") -> tuple[np.ndarray, JobInfo]:
    """A product of many tiles."""
    a, b, graph = product(SIZE, SIZE, SIZE)
    files = (lab.file(a, "a.npy"), lab.file(b, "b.npy"))
    return a @ b, lab.submit(graph, *files, executor=executor)


def settings_of(cluster: RayCluster, root: Path, **given: object) -> dict[str, object]:
    return {
        "executor": "local, ray", "ray_address": cluster.address, "validators_on": "ray",
        "ray_worker_dir": str(root / "machines"), "engine_memory_bytes": 64 * 2**20,
        "slot_bytes": 2**20, **given,
    }  # fmt: skip


@pytest.mark.slow
def test_killed_workers_and_machines_cost_their_running_tasks(tmp_path: Path) -> None:
    with RayCluster() as cluster:
        for _ in range(2):
            cluster.add()
        given = settings_of(cluster, tmp_path)
        with RealNode(tmp_path / "one", **given) as node, Lab(node, tmp_path) as lab:
            node.await_seats(2)
            expected, job = submit(lab)
            undisturbed = lab.wait(job, 60.0)
            assert undisturbed.state == "done"
            assert undisturbed.tasks >= 9
            first = lab.result(undisturbed.outputs[0])
            np.testing.assert_allclose(first, expected, rtol=1e-3, atol=1e-3)
            makers = "select count(distinct device) from lease where state = 'accepted'"
            assert node.read(makers) == [(2,)]
            for lose in ("worker", "machine"):
                node.await_seats(2)
                _, job = submit(lab)
                wait_until(lambda: lab.job(job.job).used >= 1, 60.0, "a tile is there")  # noqa: B023
                if lose == "worker":
                    (pid,) = cluster.workers(1)
                    os.kill(pid, signal.SIGKILL)
                else:
                    cluster.kill(1)
                ended = lab.wait(job, 90.0)
                assert ended.state == "done"
                assert np.array_equal(lab.result(ended.outputs[0]), first)
                assert ended.lost.abandoned <= OUTSTANDING
            node.await_seats(1)
            bridge = node.ray.process
        assert bridge is not None
        wait_until(lambda: not os.path.exists(f"/proc/{bridge}"), 20.0, "the bridge has ended")

        # A machine that does not see the node's disk is sent what it needs.
        given = settings_of(cluster, tmp_path, executor="ray", validators_on="node")
        with RealNode(tmp_path / "two", **given) as node, Lab(node, tmp_path) as lab:
            marker = node.settings.state / "ray.marker"
            wait_until(marker.exists, START_S, "the bridge writes its marker")
            marker.unlink()
            node.await_seats(1)
            assert not any(seat.shares_disk for seat in node.ray.seats.values())
            _, job = submit(lab)
            ended = lab.wait(job, 60.0)
            assert ended.state == "done"
            assert np.array_equal(lab.result(ended.outputs[0]), first)
        assert list((tmp_path / "machines").rglob("blobs/blobs/*/*"))


@pytest.mark.slow
def test_a_head_that_dies_is_said_and_others_go_on_until_it_is_back(tmp_path: Path) -> None:
    with RayCluster() as cluster:
        cluster.add()
        given = settings_of(cluster, tmp_path)
        with RealNode(tmp_path / "node", **given) as node, Lab(node, tmp_path) as lab:
            node.await_seats(1)
            cluster.kill_head()
            wait_until(lambda: not node.ray.seats, START_S, "the node sees that the head is gone")
            ones = lab.file(np.ones((6, 5), np.float32), "ones.npy")
            waiting = lab.submit(row_sums((6, 5)), ones, executor="ray")
            wait_until(
                lambda: lab.job(waiting.job).error_code == "ray_unreachable", 60.0, "the job says"
            )
            here = lab.submit(row_sums((6, 5)), ones, executor="local")
            assert lab.wait(here, 60.0).state == "done"
            cluster.kill(0)
            cluster.start_head()
            cluster.add()
            node.await_seats(1)
            ended = lab.wait(waiting, START_S)
            assert (ended.state, ended.error_code) == ("done", "")
