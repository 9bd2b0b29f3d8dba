from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from gpugoblin.wire.messages.task import Constraints
from tests.helpers.lab import Lab, refused
from tests.helpers.node import LabNode
from tests.helpers.trainings import Linear, submit, training_info

MODEL = Linear()


def test_a_training_gives_the_losses_of_plain_descent(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = lab.wait(submit(lab, MODEL))
        assert (job.state, job.plan.kind, job.tasks) == ("done", "training", 18)
        losses, _ = MODEL.run(6)
        np.testing.assert_allclose(lab.result(job.outputs[0]), losses, rtol=1e-5)
        assert lab.result(job.outputs[1]).shape == (6, 2)
        info = training_info(lab, job)
        assert (info.done, info.version, info.versions) == (6, 6, (6,))


def test_the_same_training_attaches_and_another_is_refused(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        first = lab.wait(submit(lab, MODEL))
        again = submit(lab, MODEL)
        assert (again.job, again.attached) == (first.job, True)
        refused("job_name_taken", lambda: submit(lab, MODEL, steps=7))


def test_a_trial_starts_nothing(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        told = submit(lab, MODEL, dry_run=True)
        assert (told.state, told.tasks, told.plan.tile) == ("planned", 18, (4,))
        refused("unknown_job", lambda: lab.job("line"))


def test_what_is_refused_before_it_starts(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        refused("audited_not_offered", lambda: submit(lab, MODEL, assurance="audited"))
        refused("executor_unavailable", lambda: submit(lab, MODEL, executor="grid"))
        link = Constraints(min_link_bytes_per_s=10**6)
        refused("link_not_offered", lambda: submit(lab, MODEL, constraints=link))
        zeros = np.zeros(5, np.float32)
        refused("array_mismatch", lambda: submit(lab, MODEL, weights=zeros))
        short = np.zeros((7, 3), np.float32)
        refused("training_malformed", lambda: submit(lab, MODEL, x=short))


def test_a_model_that_no_engine_can_hold(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        local = node.service.node.local
        local._fleet = dataclasses.replace(local._fleet, slot_bytes=8)
        error = refused("training_does_not_fit", lambda: submit(lab, MODEL))
        assert "micro_batch" in error.next_step


def test_state_of_an_earlier_run_goes_on(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        whole = lab.wait(submit(lab, MODEL, steps=6, name="whole"))
        _, half = MODEL.run(3)
        job = lab.wait(submit(lab, MODEL, steps=3, name="rest", weights=half, first_step=3))
        np.testing.assert_allclose(
            lab.result(job.outputs[0]), lab.result(whole.outputs[0])[3:], rtol=1e-4
        )
        assert training_info(lab, job).version == 6
