"""Rounds of local steps over real doors: twins that agree, and steps that the links choose.

Computing is the interpreter; doors, leases, votes and uploads are the real ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.catalog.spec import Array
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.messages.training import LocalRounds
from tests.helpers.device import Device
from tests.helpers.lab import Lab, grid_settings, work_until
from tests.helpers.node import LabNode
from tests.helpers.trainings import Linear, submit

MODEL = Linear(examples=48, batch=24, rate=0.05)


def one_level(arrays: list[Array]) -> list[Array]:
    """The largest output off by one bit."""
    made = [one.copy() for one in arrays]
    target = max(made, key=lambda one: one.size).reshape(-1)
    target.view(f"i{target.dtype.itemsize}")[0] ^= 1
    return made


def trust(node: LabNode, devices: list[Device]) -> None:
    """They are known, and have passed their checks; a second opinion is asked for at once."""
    for device in devices:
        device.exchange(want=0)
    rules = replace(node.node.rules, vote_after_s=(0.0, 0.01), audit_fraction=0.0)
    node.node.rules = rules

    async def passed() -> None:
        await node.node.handle(
            lambda step: step.tx.change("update device set passed = 10, proven = 1000000000000000")
        )

    node.call(passed())


def trained(root: Path, spoils: bool) -> tuple[Array, Any]:
    """The losses and the job, with three trusted devices of independent owners."""
    with LabNode(root, **grid_settings()) as node, Lab(node, root) as lab:
        devices = [lab.device() for _ in range(3)]
        try:
            trust(node, devices)
            if spoils:
                devices[2].spoil = one_level
            job = submit(
                lab, MODEL, 2, 3, executor="grid", constraints=Constraints(0, "none"),
                local=LocalRounds(3, 4), numeric_class="exact",
            )  # fmt: skip
            job = work_until(lab, job, devices, 100.0)
        finally:
            for device in devices:
                device.session.close()
        assert job.state == "done"
        return lab.result(job.outputs[0]), job


@pytest.mark.slow
def test_twins_verify_each_other_by_equal_bits(short_path: Path) -> None:
    (short_path / "a").mkdir()
    (short_path / "b").mkdir()
    losses, job = trained(short_path / "a", spoils=False)
    assert job.verified_by.equality == job.tasks
    # Who changes one bit is contradicted by its twin, and the validator says who is wrong.
    found, lied = trained(short_path / "b", spoils=True)
    assert np.array_equal(found, losses)
    assert lied.lost.rejected > 0
    assert lied.verified_by.equality > 0
    assert lied.verified_by.recompute > 0


@contextmanager
def at_work(lab: Lab, count: int) -> Iterator[None]:
    """Devices that compute whatever there is."""
    over = threading.Event()

    def run(device: Device) -> None:
        while not over.is_set():
            device.work(1)
            over.wait(0.02)
        device.session.close()

    threads = [threading.Thread(target=run, args=(lab.device(),)) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def squares(weights: Mapping[str, gg.Array], x: gg.Array, y: gg.Array) -> gg.Array:
    gap = (x * weights["w"]).sum(axis=1) - y
    return (gap * gap).mean()


@pytest.mark.slow
def test_the_links_of_the_grid_choose_the_steps_of_a_round(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(short_path / "none.toml"))

    def begun(name: str, local_steps: Any) -> gg.Run:
        return gg.train(
            squares, parameters={"w": np.zeros(3, np.float32)}, data=MODEL.data, batch=2,
            optimizer=gg.SGD(0.05), steps=12, local_steps=local_steps, shards=2, name=name,
            numeric_class="exact", executor="grid", where=gg.where(sandbox="none"),
        )  # fmt: skip

    with (
        LabNode(short_path, **grid_settings()) as node,
        Lab(node, short_path) as lab,
        gg.connect(f"unix:{node.settings.socket_path}"),
        at_work(lab, 2),
    ):
        first = begun("first", "auto").wait(timeout=100).training().chosen
        assert first is not None
        assert first.devices == 0  # Nobody was measured: the figures are assumed ones.
        begun("known", 2).wait(timeout=100)  # a dozen shards that came back
        chosen = begun("second", "auto").wait(timeout=100)
        found = chosen.training().chosen
        assert found is not None
        assert found.devices > 0
        assert (found.latency_s, found.bytes_per_s) != (first.latency_s, first.bytes_per_s)
        assert chosen.training().local_steps == found.steps
        plain = begun("plain", found.steps).wait(timeout=100)
        assert np.array_equal(plain.losses, chosen.losses)
