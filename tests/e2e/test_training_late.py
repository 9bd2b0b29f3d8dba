"""A contributor that is late: the others go on without it, and what it brings is used later.

Doors, leases and uploads are the real ones; computing is the interpreter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpugoblin.catalog.spec import Array
from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.messages.training import LateShards, LocalRounds, TrainingRounds
from tests.helpers.device import Device
from tests.helpers.lab import Lab, grid_settings, until, work_until
from tests.helpers.node import LabNode
from tests.helpers.trainings import Linear, submit, training_info

MODEL = Linear(examples=48, batch=24, rate=0.05)
ROUNDS = 3


def begun(lab: Lab, record: tuple[str, ...] = ()) -> JobInfo:
    late = LateShards(2, 0.5, record)
    return submit(
        lab, MODEL, 2, ROUNDS, executor="grid", constraints=Constraints(0, "none"),
        local=LocalRounds(3, 4, late=late), numeric_class="exact",
    )  # fmt: skip


def masks_of(lab: Lab, job: JobInfo) -> tuple[str, ...]:
    path = f"/v1/trainings/{job.job}/rounds"
    return tuple(one.in_time for one in lab.client.call("GET", path, TrainingRounds).rounds)


def ended(lab: Lab, job: JobInfo, devices: list[Device]) -> tuple[Array, Array, tuple[str, ...]]:
    """The losses, the weights and the record of a run that these devices end."""
    try:
        job = work_until(lab, job, devices, 60.0)
    finally:
        for device in devices:
            device.session.close()
    assert job.state == "done"
    weights = np.empty(4, np.float32)
    lab.client.download(
        f"/v1/trainings/{job.job}/weights", memoryview(weights).cast("B"),
        query={"version": training_info(lab, job).version, "number": 0},
    )  # fmt: skip
    return lab.result(job.outputs[0]), weights, masks_of(lab, job)


def recorded(node: LabNode) -> int:
    return int(node.read("select count(*) from arrival")[0][0])


def test_one_slow_contributor_holds_nobody_up_and_the_record_gives_the_same_bits(
    short_path: Path,
) -> None:
    settings: dict[str, Any] = grid_settings()
    (short_path / "a").mkdir()
    (short_path / "b").mkdir()
    with LabNode(short_path / "a", **settings) as node, Lab(node, short_path / "a") as lab:
        slow, quick = lab.device(), lab.device()
        try:
            job = begun(lab)
            held: list[Any] = []
            until(lambda: held.extend(slow.exchange(want=1).leases) or held)
            until(lambda: (quick.work(), recorded(node))[1])
            # The node ends here, and goes on as if nothing had been.
            again = slow.ticket, slow.grant, slow.key
            outputs = slow.compute(held[0])
        finally:
            slow.session.close()
            quick.session.close()
    with LabNode(short_path / "a", **settings) as node, Lab(node, short_path / "a") as lab:
        slow, quick = lab.device(), lab.device()
        slow.ticket, slow.grant, slow.key = again
        # What it held all the time, it brings now.
        committed = slow.exchange(commits=(slow.result(held[0].lease, outputs),))
        assert committed.uploads == (held[0].lease,)
        slow.upload(held[0].lease, outputs)
        losses, weights, masks = ended(lab, job, [quick, slow])
    assert masks[0].count("0") == 1
    assert masks[-1] == "1111"
    with LabNode(short_path / "b", **settings) as node, Lab(node, short_path / "b") as lab:
        found = ended(lab, begun(lab, masks), [lab.device(), lab.device()])
        assert found[2] == masks
        assert np.array_equal(found[0], losses)
        assert np.array_equal(found[1], weights)
