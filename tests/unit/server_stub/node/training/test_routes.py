from __future__ import annotations

from pathlib import Path

import numpy as np

from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.training import TrainingRounds
from tests.helpers.lab import Lab, refused
from tests.helpers.node import LabNode
from tests.helpers.trainings import Linear, submit, training_info

MODEL = Linear()


def rounds_of(lab: Lab, job: JobInfo, **query: int) -> TrainingRounds:
    path = f"/v1/trainings/{job.job}/rounds"
    return lab.client.call("GET", path, TrainingRounds, query=query or None)


def test_rounds_say_who_computed_and_what_was_verified(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = lab.wait(submit(lab, MODEL))
        found = rounds_of(lab, job).rounds
        assert [row.step for row in found] == list(range(6))
        for row in found:
            assert (row.contributors, row.verified, row.by_recompute) == (1, 3, 3)
            assert (row.redone, row.refused) == (0, 0)
            assert row.bytes_out == 2 * (4 + 16) + 16 + 4 + 8
            assert row.began_s <= row.ended_s
        assert [row.step for row in rounds_of(lab, job, first=4, count=1).rounds] == [4]


def test_weights_that_are_not_there(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = lab.wait(submit(lab, MODEL))
        target = memoryview(np.empty(4, np.float32)).cast("B")
        path = f"/v1/trainings/{job.job}/weights"

        def fetch(version: int, number: int) -> None:
            lab.client.download(path, target, query={"version": version, "number": number})

        refused("version_gone", lambda: fetch(2, 0))
        refused("parameter_invalid", lambda: fetch(6, 1))
        fetch(6, 0)


def test_a_job_that_is_no_training(short_path: Path) -> None:
    from tests.helpers.lab import row_sums

    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        one = lab.file(np.zeros((4, 4), np.float32), "one.npy")
        job = lab.submit(row_sums((4, 4)), one)
        refused("not_a_training", lambda: training_info(lab, job))
        refused("unknown_job", lambda: lab.client.fetch("GET", "/v1/trainings/x", max_bytes=10))
