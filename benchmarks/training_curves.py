"""Loss curves of the example models beside single-process PyTorch, and what a verified step takes.

For each model of `examples.training_problems`, 200 steps on the lab node of this machine with the
same first weights and the same batches: the largest relative difference of the losses in the first
20 steps, that at the end, and seconds a step of both. Every gradient is computed twice (once again
by the validator); PyTorch uses all cores.

    python -m benchmarks.training_curves [--steps 200] [NAME...]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import gpugoblin as gg
from benchmarks.record import Row, row
from gpugoblin.client.session import Session
from gpugoblin.plan.order import Order

__all__ = ["measure"]

STEPS = 200
FIRST = 20


def measure() -> list[Row]:
    """The rows of all models."""
    from examples.training_problems import PROBLEMS

    return curves(list(PROBLEMS), STEPS)


def curves(names: list[str], steps: int) -> list[Row]:
    """The rows of some models."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="gg-") as directory:
        session = gg.connect("local", state_dir=Path(directory) / "state")
        try:
            for name in names:
                rows += _one(session, name, steps)
        finally:
            session.stop_node()
            session.close()
    return rows


def _one(session: Session, name: str, steps: int) -> list[Row]:
    import torch

    from examples.training_problems import PROBLEMS

    torch.manual_seed(0)
    problem = PROBLEMS[name]()
    run = gg.train(
        problem.model, loss=problem.loss, data=problem.data, optimizer=problem.optimizer,
        steps=steps, batch=problem.batch, micro_batch=problem.micro, name=name, session=session,
    )  # fmt: skip
    began_s = time.perf_counter()
    run.wait()
    ours_s = (time.perf_counter() - began_s) / steps
    losses = run.losses.astype(np.float64)
    began_s = time.perf_counter()
    plain = _plain(problem, steps)
    theirs_s = (time.perf_counter() - began_s) / steps
    gaps = np.abs(losses / plain - 1)
    note = f"{steps} steps, batch {problem.batch} in tasks of {problem.micro}, seed 0"
    return [
        row(f"training {name}: losses of the first {min(FIRST, steps)} steps, relative to PyTorch",
            float(gaps[:FIRST].max()), "", bar=1e-4, better="lower", peer="PyTorch", note=note),
        row(f"training {name}: loss after {steps} steps, relative to PyTorch",
            float(gaps[-1]), "", bar=1e-2, better="lower", peer="PyTorch", note=note),
        row(f"training {name}: a verified step on the local node", ours_s, "s", better="lower",
            peer="PyTorch, unverified", peer_value=theirs_s, note=note),
    ]  # fmt: skip


def _plain(problem: Any, steps: int) -> Any:
    """The losses of PyTorch in this process."""
    import torch

    from gpugoblin.client.train_model import _takes_model

    kind = getattr(torch.optim, type(problem.optimizer).__name__)
    optimizer = kind(problem.model.parameters(), lr=problem.optimizer.rate)
    order = Order(len(problem.data[0]), problem.batch, 0)
    found = []
    for step in range(steps):
        rows = list(order.rows(step, 0, problem.batch))
        batch = [torch.from_numpy(np.asarray(one)[rows]) for one in problem.data]
        if _takes_model(problem.loss):
            loss = problem.loss(problem.model, *batch)
        else:
            loss = problem.loss(problem.model(*batch[:-1]), batch[-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    from examples.training_problems import PROBLEMS

    for one in curves(given.names or list(PROBLEMS), given.steps):
        print(f"{one.what}: {one.value} {one.unit} (peer {one.peer_value}, meets {one.meets})")


if __name__ == "__main__":
    main()
