from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.graph.serialize import encode
from gpugoblin.plan.order import Order
from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.training import EvaluationSubmit, GraphSlot, LocalRounds
from server_stub.node.training.watching import no_better
from tests.helpers.lab import Lab
from tests.helpers.node import LabNode
from tests.helpers.trainings import SLOTS, Linear, linear_loss, submit, training_info

MODEL = Linear()


@pytest.mark.parametrize(
    ("losses", "patience", "least", "stop"),
    [
        ([3.0, 2.0, 2.5, 2.5], 2, 0.0, True),
        ([3.0, 2.0, 2.5], 2, 0.0, False),
        ([3.0, 2.0, 2.5, 1.9], 2, 0.0, False),
        ([3.0, 2.0, 2.5, 1.9], 2, 0.2, True),
        ([3.0, 4.0, 5.0], 0, 0.0, False),
        ([3.0], 1, 0.0, False),
    ],
)
def test_when_to_stop(losses: list[float], patience: int, least: float, stop: bool) -> None:
    assert no_better(losses, patience, least) is stop


@pytest.mark.parametrize("step", [2, 5])
def test_nan_is_named_by_step_and_parameter_and_weights_stay(short_path: Path, step: int) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        x, _ = MODEL.data
        x[Order(40, 8, 3).rows(step, 0, 8)[3]] = np.nan
        # Step 5 begins the second epoch, so an earlier step has read what it reads.
        job = lab.wait(submit(lab, MODEL, x=x, steps=8))
        failed = next(
            turn for turn in range(8)
            if np.isnan(x[list(Order(40, 8, 3).rows(turn, 0, 8))]).any()
        )  # fmt: skip
        assert (job.state, job.error_code) == ("failed", "training_not_finite")
        assert f"step {failed}" in job.error_text
        assert "gradient of w" in job.error_text
        info = training_info(lab, job)
        weights = np.empty(4, np.float32)
        lab.client.download(
            f"/v1/trainings/{job.job}/weights", memoryview(weights).cast("B"),
            query={"version": info.versions[-1], "number": 0},
        )  # fmt: skip
        _, expected = MODEL.run(failed)
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-6)


def test_the_last_step_is_looked_at_too(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = lab.wait(submit(lab, MODEL, x=np.full((40, 3), np.inf, np.float32), steps=1))
        assert (job.state, job.error_code) == ("failed", "training_not_finite")


def stopping(lab: Lab, rate: float, steps: int, **fields: Any) -> JobInfo:
    x, y = MODEL.data
    held = EvaluationSubmit(
        encode(linear_loss(4)),
        tuple(GraphSlot(one.kind, one.array, one.offset) for one in SLOTS),
        (lab.file(x[:8], "hx.npy").array, lab.file(y[:8], "hy.npy").array),
        every=2, patience=2, least=1e-3,
    )  # fmt: skip
    return lab.wait(submit(lab, Linear(rate=rate), steps=steps, evaluation=held, **fields))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "step 2 "),
        ({"first_step": 7}, "step 9 "),
        ({"local": LocalRounds(1, 2), "numeric_class": "exact"}, "round 2 "),
    ],
)
def test_a_training_ends_early_and_keeps_its_weights(
    short_path: Path, fields: dict[str, Any], told: str
) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = stopping(lab, 1e-7, 40, **fields)
        assert job.state == "done"
        info = training_info(lab, job)
        assert f"no better evaluation since {told}" in info.ended_early
        assert 6 <= info.done < 40
        assert job.tasks == job.used
        assert info.versions == (info.first_step + info.done,)


def test_a_training_that_gets_better_goes_on(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = stopping(lab, 0.05, 10)
        info = training_info(lab, job)
        assert (job.state, info.done, info.ended_early) == ("done", 10, "")
        scores = lab.result(job.outputs[2])
        assert (np.diff(scores) < 0).all()
