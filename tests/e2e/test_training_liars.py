"""Volunteers that lie, at a training on the grid: the curve is the same, bit by bit.

The validator computes with the engine's reference and judges with the real rules
(`gpugoblin.verify`); doors, leases and uploads are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.graph.serialize import decode
from gpugoblin.verify.compare import judge_recomputed
from gpugoblin.wire.messages.lease import Lease
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.messages.training import LocalRounds
from server_stub.node.work import Checked, Recompute, Reply
from tests.helpers.device import Device
from tests.helpers.float32 import evaluate_float32
from tests.helpers.lab import Lab, grid_settings, work_until
from tests.helpers.node import LabNode, Workers, evaluate
from tests.helpers.trainings import Linear, submit, training_info

MODEL = Linear()
STEPS = 12


class Judges(Workers):
    """The validator with the real decision about what it computes again."""

    def _recompute(self, work: Recompute) -> Reply:
        inputs = self._inputs(work)
        own = list(evaluate(work.graph, inputs, work.numeric_class))
        theirs = [self._read(blob) for blob in work.committed]
        verdict = judge_recomputed(
            decode(work.graph), inputs, own, theirs or own, work.numeric_class, work.tolerance
        )
        right = bool(theirs) and verdict.accepted
        chosen = theirs if right else own
        names: tuple[str, ...] = ()
        if work.fold and (right or work.repair):
            names = tuple(
                self._place(array, output, keep=False)
                for array, output in zip(chosen, work.outputs, strict=True)
            )
        return Checked(
            work.work, right, "" if right else verdict.code or "result_mismatch", 0.0, 1.0,
            () if right else names, "validator", verdict.tolerance,
        )  # fmt: skip


def _gradient(arrays: list[Array]) -> Array:
    """The largest output: the gradient, or the weights."""
    return max(arrays, key=lambda one: one.size)


def all_wrong(arrays: list[Array]) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(one.shape).astype(one.dtype) for one in arrays]


def one_element(arrays: list[Array]) -> list[Array]:
    made = [one.copy() for one in arrays]
    target = _gradient(made).reshape(-1)
    target[0] += np.float32(1e-2) * np.sqrt(np.mean(target.astype(np.float64) ** 2) + 1e-12)
    return made


def sign_of_a_row(arrays: list[Array]) -> list[Array]:
    made = [one.copy() for one in arrays]
    _gradient(made).reshape(-1)[:2] *= -1
    return made


def one_level(arrays: list[Array]) -> list[Array]:
    """One number off by the least that int8 can say; in a step, by one bit."""
    made = [one.copy() for one in arrays]
    target = _gradient(made).reshape(-1)
    target.view(f"i{target.dtype.itemsize}")[0] ^= 1
    return made


def nan(arrays: list[Array]) -> list[Array]:
    made = [one.copy() for one in arrays]
    _gradient(made).reshape(-1)[-1] = np.nan
    return made


def another_order(device: Device) -> None:
    """Makes a device an honest engine that computes in float32 and sums in an order of its own."""
    count = 0

    def compute(lease: Lease) -> list[Array]:
        nonlocal count
        count += 1
        graph = decode(lease.task.graph)
        inputs = [
            np.frombuffer(device.blob(lease, one.blob, one.nbytes), DTYPES[spec.dtype])
            .reshape(spec.shape)
            for one, spec in zip(lease.task.inputs, graph.inputs, strict=True)
        ]  # fmt: skip
        return device.spoil(evaluate_float32(graph, inputs, count))

    device.compute = compute  # type: ignore[method-assign] # the engine under test


def forget(device: Device) -> None:
    """Makes a device lose the first leases that it is given, as one that is switched off."""
    work, lost = device.work, []

    def instead(want: int = 2) -> int:
        if lost:
            return work(want)
        lost.extend(device.exchange(want=want).leases)
        return 0

    device.work = instead  # type: ignore[method-assign] # the engine under test


def trained(
    root: Path,
    spoils: list[Callable[[list[Array]], list[Array]]],
    *,
    other_order: bool = False,
    model: Linear = MODEL,
    forgets: bool = False,
    **fields: Any,
) -> tuple[Any, ...]:
    """The losses, the weights, how the job stands, and how many tasks used a device's own result,
    with one honest device beside liars; `forgets`: and one that loses what it was first given."""
    settings = grid_settings()
    with LabNode(root, workers=Judges(root / "state" / "blobs"), **settings) as node:
        node.workers.store.root.mkdir(parents=True, exist_ok=True)
        with Lab(node, root) as lab:
            devices = [lab.device() for _ in range(1 + len(spoils) + forgets)]
            if forgets:
                forget(devices[-1])
            for device in devices if other_order else []:
                another_order(device)
            for device, spoil in zip(devices[1:], spoils, strict=False):
                device.spoil = spoil
            try:
                job = submit(
                    lab, model, executor="grid", constraints=Constraints(0, "none"),
                    **{"steps": STEPS, **fields},
                )  # fmt: skip
                job = work_until(lab, job, devices, 60.0)
            finally:
                for device in devices:
                    device.session.close()
            weights = np.empty(4, np.float32)
            lab.client.download(
                f"/v1/trainings/{job.job}/weights", memoryview(weights).cast("B"),
                query={"version": training_info(lab, job).version, "number": 0},
            )  # fmt: skip
            own = node.read("select count(*) from task where winner != 'validator'")[0][0]
            return lab.result(job.outputs[0]), weights, job, own


def test_liars_change_nothing(tmp_path: Path, short_path: Path) -> None:
    (short_path / "a").mkdir()
    (short_path / "b").mkdir()
    losses, weights, job, _ = trained(short_path / "a", [])
    np.testing.assert_allclose(losses, MODEL.run(STEPS)[0], rtol=1e-4, atol=1e-8)
    assert job.state == "done"
    spoils = [all_wrong, one_element, sign_of_a_row, nan]
    found, other, lied, _ = trained(short_path / "b", spoils)
    assert lied.state == "done"
    # Not one wrong number was used: the same bits.
    assert np.array_equal(found, losses)
    assert np.array_equal(other, weights)
    assert lied.verified_by.recompute == lied.tasks


@pytest.mark.slow
def test_an_honest_engine_of_another_order_is_believed(tmp_path: Path, short_path: Path) -> None:
    """Its own results are used, all of them, and nobody is refused for rounding otherwise."""
    losses, weights, job, own = trained(short_path, [], other_order=True)
    expected, ends = MODEL.run(STEPS)
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(weights, ends, rtol=1e-4)
    assert job.state == "done"
    assert (own, job.lost.rejected) == (job.tasks, 0)


@pytest.mark.slow
def test_liars_beside_an_engine_of_another_order(tmp_path: Path, short_path: Path) -> None:
    """No liar's number is used: the curve is that of honest float32 engines."""
    spoils = [all_wrong, one_element, sign_of_a_row, nan]
    losses, weights, job, own = trained(short_path, spoils, other_order=True)
    expected, ends = MODEL.run(STEPS)
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(weights, ends, rtol=1e-4)
    assert job.state == "done"
    assert own > 0


ROUNDS = {
    "model": Linear(examples=48, batch=24, rate=0.05), "micro": 2, "steps": 6,
    "local": LocalRounds(3, 4), "numeric_class": "exact",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("forgets", [False, True])
def test_rounds_of_local_steps_among_liars_give_the_same_bits(
    forgets: bool, short_path: Path
) -> None:
    (short_path / "a").mkdir()
    (short_path / "b").mkdir()
    losses, weights, job, _ = trained(short_path / "a", [], **ROUNDS)
    assert job.state == "done"
    assert losses.shape == (6,)
    assert losses[-1] < losses[0] / 10
    # A device that loses its leases is done without after ten seconds.
    spoils = [all_wrong, one_level]
    found, other, lied, own = trained(short_path / "b", spoils, forgets=forgets, **ROUNDS)
    assert lied.state == "done"
    assert np.array_equal(found, losses)
    assert np.array_equal(other, weights)
    assert lied.lost.rejected > 0
    assert (lied.lost.expired > 0) == forgets
    assert own > 0
