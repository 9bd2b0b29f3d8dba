"""Training on the real lab node of this machine, beside plain PyTorch on the same seed."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.client import local
from gpugoblin.client.local import LocalNode
from gpugoblin.client.session import Session
from gpugoblin.plan.order import Order
from tests.helpers.torch_programs import torch_or_skip

torch = torch_or_skip()
datasets = pytest.importorskip("sklearn.datasets", reason="the digits come with scikit-learn")

PAGE = Path(__file__).parents[2] / "docs" / "researcher" / "training.md"
STEPS, BATCH = 8, 32


@pytest.fixture
def lab(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(short_path / "none.toml"))
    with gg.connect("local", state_dir=short_path / "state") as session:
        yield session
        session.stop_node()


def network() -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)
    )


def digits() -> tuple[Any, Any]:
    found = datasets.load_digits()
    return (found.images[:, None] / 16).astype(np.float32), found.target.astype(np.int64)


def plain_losses(model: Any, steps: int, batch: int) -> Any:
    """PyTorch in one process, on the examples that a run reads."""
    x, y = (torch.from_numpy(one) for one in digits())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        rows = list(Order(len(x), batch, 0).rows(step, 0, batch))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def begun(steps: int = STEPS) -> gg.Run:
    return gg.train(
        network(), loss=torch.nn.functional.cross_entropy, data=digits(),
        optimizer=gg.AdamW(3e-3), steps=steps, batch=BATCH, micro_batch=16, name="digits",
    )  # fmt: skip


def test_the_curve_is_that_of_pytorch(lab: Session) -> None:
    run = begun().wait(timeout=100)
    model = network()
    np.testing.assert_allclose(run.losses, plain_losses(model, STEPS, BATCH), rtol=1e-4)
    loaded = run.load_into(network())
    for one, other in zip(loaded.parameters(), model.parameters(), strict=True):
        assert (one - other).abs().max() < 1e-4
    assert run.info.verified_by.recompute == run.info.tasks


def test_a_killed_node_goes_on_from_the_last_step(lab: Session, short_path: Path) -> None:
    node = LocalNode((short_path / "state").resolve())
    run = begun()
    for wanted in (2, 5):
        deadline_s = time.monotonic() + 60
        while run.training().done < wanted and time.monotonic() < deadline_s:
            time.sleep(0.02)
        pid = local._listener(node)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        deadline_s = time.monotonic() + 10
        while local._listener(node) == pid and time.monotonic() < deadline_s:
            time.sleep(0.02)
        run.reconnect()
    run.wait(timeout=100)
    np.testing.assert_allclose(run.losses, plain_losses(network(), STEPS, BATCH), rtol=1e-4)
    assert run.info.verified == run.info.tasks == 3 * STEPS


@pytest.mark.slow
def test_the_page_runs_as_it_is_written(
    lab: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        promised = re.findall(r"^# (.*)$", block, re.MULTILINE)
        script = tmp_path / "page.py"
        script.write_text(block.replace('gg.connect("local")', "None"), encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), names)  # noqa: S102
        assert out.getvalue().splitlines() == promised, block


@pytest.mark.slow
def test_a_loop_of_ones_own(lab: Session) -> None:
    x, y = digits()
    ours, plain = network(), network()
    theirs = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(theirs, 2, 0.5)
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05, momentum=0.9)
    own = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    model, optimizer = gg.prepare(ours, optimizer, loss=torch.nn.functional.cross_entropy)
    for step in range(4):
        part = slice(step * 20, step * 20 + 20)
        loss = model.step((x[part], y[part]))
        optimizer.step()  # without gradients it does nothing; schedulers want to see it called
        own.step()
        theirs.zero_grad()
        expected = torch.nn.functional.cross_entropy(
            plain(torch.from_numpy(x[part])), torch.from_numpy(y[part])
        )
        expected.backward()
        theirs.step()
        schedule.step()
        assert loss == pytest.approx(expected.item(), rel=1e-4)
    assert gg.jobs() == []
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert (one - other).abs().max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "text", "physics", "diffusion", "graph"])
def test_the_examples_follow_pytorch(lab: Session, name: str) -> None:
    from examples.training_problems import PROBLEMS
    from gpugoblin.client.train_model import _takes_model

    torch.manual_seed(0)
    problem = PROBLEMS[name]()
    run = gg.train(
        problem.model, loss=problem.loss, data=problem.data, optimizer=problem.optimizer, steps=3,
        batch=problem.batch, micro_batch=problem.micro, name=name,
    ).wait(timeout=100)  # fmt: skip
    kind = getattr(torch.optim, type(problem.optimizer).__name__)
    optimizer = kind(problem.model.parameters(), lr=problem.optimizer.rate)
    order = Order(len(problem.data[0]), problem.batch, 0)
    for step in range(3):
        rows = list(order.rows(step, 0, problem.batch))
        batch = [torch.from_numpy(np.asarray(one)[rows]) for one in problem.data]
        if _takes_model(problem.loss):
            loss = problem.loss(problem.model, *batch)
        else:
            loss = problem.loss(problem.model(*batch[:-1]), batch[-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert run.losses[step] == pytest.approx(loss.item(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["transformer", "text", "diffusion"])
def test_examples_that_no_engine_can_hold(
    name: str, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of all of it is more than a task may take: in stages, the curve is PyTorch's."""
    from examples.training_problems import LARGE, LARGE_MEMORY_BYTES
    from gpugoblin.client.train_model import _takes_model

    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(short_path / "none.toml"))
    torch.manual_seed(0)
    problem = LARGE[name]()
    with gg.connect(
        "local", state_dir=short_path / "s", memory_bytes=LARGE_MEMORY_BYTES
    ) as session:
        # Descent: Adam divides by the size of a gradient, next to nothing as that may be.
        run = gg.train(
            problem.model, loss=problem.loss, data=problem.data, optimizer=gg.SGD(0.05), steps=2,
            batch=8, micro_batch=4, name=name,
        )  # fmt: skip
        found = run.training()
        assert found.stages > 1
        assert found.job.plan.memory_bound_bytes <= LARGE_MEMORY_BYTES
        run.wait(timeout=200)
        session.stop_node()
        optimizer = torch.optim.SGD(problem.model.parameters(), lr=0.05)
        order = Order(len(problem.data[0]), 8, 0)
        for step in range(2):
            rows = list(order.rows(step, 0, 8))
            batch = [torch.from_numpy(np.asarray(one)[rows]) for one in problem.data]
            if _takes_model(problem.loss):
                loss = problem.loss(problem.model, *batch)
            else:
                loss = problem.loss(problem.model(*batch[:-1]), batch[-1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert run.losses[step] == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.slow
def test_a_model_that_no_engine_can_hold(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """36 MiB of weights, as much of gradients, an engine of 64 MiB: the curve is PyTorch's."""
    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(short_path / "none.toml"))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((128, 768)).astype(np.float32)
    y = rng.integers(0, 10, 128)

    def deep() -> Any:
        torch.manual_seed(0)
        layers: list[Any] = []
        for _ in range(16):
            layers += [torch.nn.Linear(768, 768), torch.nn.Tanh()]
        return torch.nn.Sequential(*layers, torch.nn.Linear(768, 10))

    cross_entropy = torch.nn.functional.cross_entropy
    with gg.connect("local", state_dir=short_path / "s", memory_bytes=64 * 2**20) as session:
        run = gg.train(
            deep(), loss=cross_entropy, data=(x, y), optimizer=gg.AdamW(1e-3), steps=3, batch=32,
            micro_batch=16, name="deep",
        )  # fmt: skip
        found = run.training()
        assert found.stages > 1
        assert found.job.plan.memory_bound_bytes <= 64 * 2**20
        losses = run.wait(timeout=100).losses
        session.stop_node()
    model = deep()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        rows = list(Order(128, 32, 0).rows(step, 0, 32))
        loss = cross_entropy(model(torch.from_numpy(x[rows])), torch.from_numpy(y[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert losses[step] == pytest.approx(loss.item(), rel=1e-4)
