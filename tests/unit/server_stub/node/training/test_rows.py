from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.wire.messages.job import JobInfo
from server_stub.node.work import Work
from tests.helpers.lab import Lab, refused, until
from tests.helpers.node import LabNode
from tests.helpers.trainings import Linear, submit, training_info

MODEL = Linear()


def test_old_weights_are_let_go_of_and_some_are_kept(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = lab.wait(submit(lab, MODEL, steps=7, keep_every=3))
        assert training_info(lab, job).versions == (3, 6, 7)
        for version in (3, 6, 7):
            weights = np.empty(4, np.float32)
            lab.client.download(
                f"/v1/trainings/{job.job}/weights", memoryview(weights).cast("B"),
                query={"version": version, "number": 0},
            )  # fmt: skip
            np.testing.assert_allclose(weights, MODEL.run(version)[1], rtol=1e-4, atol=1e-6)
        # Three versions of one tensor, and nothing of the rounds in between.
        until(lambda: len(list(node.service.node.blobs.names())) == 3)
        lab.client.fetch("DELETE", f"/v1/jobs/{job.job}", max_bytes=100)
        until(lambda: not list(node.service.node.blobs.names()))
        refused("unknown_job", lambda: training_info(lab, job))


def test_a_restart_in_the_middle_of_a_round_loses_nothing(short_path: Path) -> None:
    """The node ends after some rounds, with micro-batches under way; the next one goes on."""
    count = 0

    def limit(work: Work) -> None:
        nonlocal count
        count += 1

    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        node.workers.meddle = limit
        job = submit(lab, MODEL, steps=30)
        until(lambda: count > 20)
        before = training_info(lab, job).done
        assert before < 30
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = lab.wait(lab.job(job.job))
        assert job.state == "done"
        np.testing.assert_allclose(
            lab.result(job.outputs[0]), MODEL.run(30)[0], rtol=1e-4, atol=1e-8
        )
        assert training_info(lab, job).done == 30


@pytest.mark.parametrize("ending", ["cancel"])
def test_a_cancelled_training_keeps_what_it_reached(short_path: Path, ending: str) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = submit(lab, MODEL, steps=5000)
        until(lambda: training_info(lab, job).done >= 3)
        job = lab.client.call("POST", f"/v1/jobs/{job.job}/{ending}", JobInfo)
        info = training_info(lab, job)
        assert job.state == "cancelled"
        assert info.done >= 3
        losses = np.empty(info.done, np.float32)
        lab.client.download(
            f"/v1/arrays/{job.outputs[0].array}/region", memoryview(losses).cast("B"),
            query={"start": 0, "stop": info.done},
        )  # fmt: skip
        np.testing.assert_allclose(losses, MODEL.run(info.done)[0], rtol=1e-4, atol=1e-6)
        weights = np.empty(4, np.float32)
        lab.client.download(
            f"/v1/trainings/{job.job}/weights", memoryview(weights).cast("B"),
            query={"version": info.versions[-1], "number": 0},
        )  # fmt: skip
        np.testing.assert_allclose(weights, MODEL.run(info.done)[1], rtol=1e-4, atol=1e-6)


def test_every_gradient_is_used_once(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = lab.wait(submit(lab, MODEL, steps=4))
        store = node.service.node.store

        async def look() -> list[Any]:
            return await store.read(
                lambda tx: tx.rows(
                    "select i.producer, count(*) from task_input i join task t on t.id = i.producer"
                    " where t.job = ? and t.affinity = 1 group by i.producer, i.producer_slot",
                    (job.job,),
                )
            )

        rows = asyncio.run_coroutine_threadsafe(look(), node.loop).result()
        assert rows
        assert {count for _, count in rows} == {1}
