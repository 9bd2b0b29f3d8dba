"""A researcher and the real lab node of this machine, sandboxed engine included where it can be."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import gpugoblin as gg
from gpugoblin.client import local
from gpugoblin.client.job import Job
from gpugoblin.client.local import LocalNode
from gpugoblin.client.session import Session
from tests.unit.gpugoblin.client.test_guide import run_guide

NUMBERS = np.random.default_rng(0).normal(size=(256, 192)).astype(np.float32)


@pytest.fixture
def lab(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(short_path / "none.toml"))
    with gg.connect("local", state_dir=short_path / "state") as session:
        yield session
        session.stop_node()


def test_the_guide_runs_on_a_real_node(
    lab: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_guide(lab.address, tmp_path, monkeypatch)


def test_many_programs(lab: Session, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(NUMBERS))
    save_file({"w": NUMBERS[:64]}, tmp_path / "w.safetensors")
    x, w = gg.open(tmp_path / "a.npy"), gg.open(tmp_path / "w.safetensors")
    logits = NUMBERS @ NUMBERS[:64].T
    powers = np.exp(logits - logits.max(1, keepdims=True))
    programs = {
        "product": (x @ w.T, logits),
        "softmax": (gg.softmax(x @ w.T), powers / powers.sum(1, keepdims=True)),
        "blocks": (gg.map_blocks(lambda rows: gg.tanh(rows @ w.T), x), np.tanh(logits)),
        "transposed": (x.T + 0.5, NUMBERS.T + 0.5),
        "sums": (x.sum(axis=0), NUMBERS.sum(0)),
        "mean": (x.mean(), NUMBERS.mean()),
        "argmax": (x.argmax(axis=1), NUMBERS.argmax(1)),
        "slices": (x[3:200:7, ::2], NUMBERS[3:200:7, ::2]),
        "joined": (gg.concat([x, x[:10]]), np.concatenate([NUMBERS, NUMBERS[:10]])),
        "picked": (gg.take(x, [5, -1, 0]), NUMBERS[[5, -1, 0]]),
        "chosen": (gg.where(x > 0, x, 0.0), np.maximum(NUMBERS, 0)),
        "whole": (gg.array(np.arange(50)).sum(), np.arange(50).sum()),
        "truth": ((x > 0).any(axis=1), (NUMBERS > 0).any(1)),
        "empty": (x[:0] * 2, NUMBERS[:0]),
    }
    for name, (lazy, expected) in programs.items():
        result = lazy.compute(timeout=60)
        assert (result.shape, result.dtype) == (expected.shape, lazy.dtype), name
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4, err_msg=name)
    assert gg.jobs() == []


@pytest.mark.slow
def test_a_job_survives_its_node(lab: Session, short_path: Path) -> None:
    shape = (6144, 4096)
    big = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    np.save(short_path / "big.npy", big)
    x = gg.open(short_path / "big.npy")
    job = (x @ x.T).save(short_path / "gram.npy", name="gram")
    assert isinstance(job, Job)
    node = LocalNode((short_path / "state").resolve())
    killed: list[int] = []

    def kill() -> None:
        deadline_s = time.monotonic() + 60
        while lab.get("gram").info.verified < 1 and time.monotonic() < deadline_s:
            time.sleep(0.1)
        pid = local._listener(node)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    job.wait(timeout=100)
    killer.join()
    assert len(killed) == 1
    assert local._listener(node) != killed[0]
    assert job.info.verified == job.info.tasks
    gram = np.load(short_path / "gram.npy")
    np.testing.assert_allclose(gram[-64:, :64], big[-64:] @ big[:64].T, rtol=1e-3, atol=1e-2)
