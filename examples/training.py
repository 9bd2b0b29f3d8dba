"""Trains one of the example models on the lab node of this machine: python -m examples.training

    python -m examples.training text --steps 500

The run stays on the node under the model's name: start the command again, and it goes on.
"""

from __future__ import annotations

import argparse

import torch
from rich.console import Console

import gpugoblin as gg
from examples.training_problems import PROBLEMS


def main() -> None:
    parser = argparse.ArgumentParser(description="Train an example model.")
    parser.add_argument("name", choices=sorted(PROBLEMS))
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    torch.manual_seed(0)
    problem = PROBLEMS[given.name]()
    with gg.connect("local"):
        run = gg.train(
            problem.model, loss=problem.loss, data=problem.data, optimizer=problem.optimizer,
            steps=given.steps, batch=problem.batch, micro_batch=problem.micro,
            name=f"example-{given.name}",
        ).wait()  # fmt: skip
        Console().print(run.view())
        run.plot("loss", f"{given.name}.png")


if __name__ == "__main__":
    main()
