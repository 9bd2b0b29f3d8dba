"""Trains one of the example models on the lab node of this machine: python -m examples.training

    python -m examples.training text --steps 500

The run stays on the node under the model's name: start the command again, and it goes on.

    python -m examples.training text --large --steps 3

trains a larger one on a node whose engine may take 64 MiB for a task, which cannot hold it.
"""

from __future__ import annotations

import argparse

import torch
from rich.console import Console

import gpugoblin as gg
from examples.training_problems import LARGE, LARGE_MEMORY_BYTES, PROBLEMS

STATE = "large-example-node"
"""The node with the small engine has a place of its own, in this folder."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Train an example model.")
    parser.add_argument("name", choices=sorted(PROBLEMS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--large", action="store_true", help="more than an engine can hold")
    given = parser.parse_args()
    if given.large and given.name not in LARGE:
        parser.error(f"--large is there for {', '.join(LARGE)}")
    torch.manual_seed(0)
    problem = (LARGE if given.large else PROBLEMS)[given.name]()
    place = STATE if given.large else None
    with gg.connect(
        "local", state_dir=place, memory_bytes=LARGE_MEMORY_BYTES if given.large else None
    ):
        run = gg.train(
            problem.model, loss=problem.loss, data=problem.data, optimizer=problem.optimizer,
            steps=given.steps, batch=problem.batch, micro_batch=problem.micro,
            name=f"example-{given.name}{'-large' if given.large else ''}",
        ).wait()  # fmt: skip
        Console().print(run.view())
        run.plot("loss", f"{given.name}.png")


if __name__ == "__main__":
    main()
