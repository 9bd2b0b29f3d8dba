"""Who computes a job: the executor that is asked for, or the fastest that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server_stub.node.state import quotas
from server_stub.node.state.words import Step
from tests.helpers.hands import Hands
from tests.helpers.lab import (
    Lab,
    grid_settings,
    on_grid,
    product,
    refused,
    row_sums,
    until,
    work_until,
)
from tests.helpers.node import LabNode

__all__: list[str] = []

RAY = {"executor": "local, grid, ray", "ray_address": "test:1"}


def planned(lab: Lab, executor: str = "auto") -> str:
    array = lab.file(np.ones((6, 5), np.float32), "v.npy")
    found = lab.submit(row_sums((6, 5)), array, executor=executor, dry_run=True)
    return str(found.plan.executor)


@pytest.mark.parametrize(
    ("settings", "executor", "reason"),
    [
        ({}, "ray", "names no Ray cluster"),
        ({"local_engine": False}, "local", "no engine of its own"),
        ({"executor": "grid"}, "local", "no engine of its own"),
        ({"local_engine": False}, "auto", "no engine of its own"),
        ({}, "grid", "belongs to no lab"),
        ({**grid_settings(), "executor": "local"}, "grid", "leaves it out"),
    ],
)
def test_what_is_not_there_is_refused_with_the_reason(
    tmp_path: Path, settings: dict[str, Any], executor: str, reason: str
) -> None:
    with LabNode(tmp_path, **settings) as node, Lab(node, tmp_path) as lab:
        error = refused("executor_unavailable", lambda: planned(lab, executor))
        assert reason in str(error)


def test_a_cluster_is_taken_where_it_is_faster(tmp_path: Path) -> None:
    with LabNode(tmp_path, link=Hands(), **RAY) as node, Lab(node, tmp_path) as lab:
        assert planned(lab) == "local"  # nobody is there
        for number in range(64):
            node.call(node.link.add(f"m{number}"))
        a, b, graph = product(1500, 1500, 1500)
        files = (lab.file(a, "a.npy"), lab.file(b, "b.npy"))
        node.node.local.learn(1e9)
        assert lab.submit(graph, *files, dry_run=True).plan.executor == "ray"
        node.node.local.learn(1e15)
        assert lab.submit(graph, *files, dry_run=True).plan.executor == "local"


def test_without_an_engine_the_cluster_is_what_there_is(tmp_path: Path) -> None:
    given = {**RAY, "local_engine": False}
    with LabNode(tmp_path, link=Hands(), **given) as node, Lab(node, tmp_path) as lab:
        assert planned(lab) == "ray"


def test_without_hours_of_volunteers_a_job_stays_here_or_waits(tmp_path: Path) -> None:
    given = {**grid_settings(), "window_tasks": 8}
    with LabNode(tmp_path, **given) as node, Lab(node, tmp_path) as lab:
        graph, shape = row_sums((24, 1 << 18)), (24, 1 << 18)
        files = (lab.file(np.ones(shape, np.float32), "long.npy"),)
        job = on_grid(lab, graph, *files, name="long")
        assert job.tasks > 16

        def limit(hours: float | None) -> None:
            def body(step: Step) -> None:
                quotas.set_limits(step.tx, job.owner, quotas.Limits(grid_hours=hours))

            node.call(node.node.handle(body))

        with lab.device() as device:
            until(lambda: device.work() > 0)
            until(lambda: lab.job("long").verified > 0)
            assert node.read("select seconds > 0 and seconds < 60 from grid_use") == [(1,)]
            limit(0.0)
            until(lambda: lab.job("long").error_code == "quota_grid_hours")
            begun = node.read("select cursor from job")[0][0]
            until(lambda: lab.job("long").verified == begun or device.work() < 0)
            held = lab.job("long")
            assert (held.state, held.verified) == ("running", begun)
            assert begun < job.tasks
            refused("quota_grid_hours", lambda: on_grid(lab, graph, *files, name="other"))
            assert planned(lab) == "local"
            limit(None)
            done = work_until(lab, lab.job("long"), [device])
            assert (done.state, done.error_code) == ("done", "")
