"""Running steps of an optimizer by the reference interpreter, in float64, and by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.interpret import interpret_wide
from gpugoblin.optim.step import Optimizer

__all__ = ["SHAPES", "gradients_at", "parameters", "train", "train_torch"]

SHAPES = ((3, 4), (5,), (), (2, 3, 2))


def parameters() -> list[Array]:
    """float32 numbers, in float64."""
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(np.float32).astype(np.float64) for shape in SHAPES]


def gradients_at(step: int) -> list[Array]:
    """Other ones each step, of rising size."""
    random = np.random.default_rng(step + 1)
    return [
        (random.standard_normal(shape) * (step + 1)).astype(np.float32).astype(np.float64)
        for shape in SHAPES
    ]


def train(optimizer: Optimizer, steps: int, *, clip_norm: float | None = None) -> list[Array]:
    """The parameters after some steps."""
    specs = [TensorSpec("float32", shape) for shape in SHAPES]
    made = optimizer.step_graph(specs, clip_norm=clip_norm)
    values = parameters()
    state = [array.astype(np.float64) for array in made.initial()]
    for step in range(steps):
        inputs = [*values, *gradients_at(step), *state, np.array(step, np.int64)]
        found = interpret_wide(made.graph, inputs)
        values, state = list(found[: len(SHAPES)]), list(found[len(SHAPES) :])
    return values


def train_torch(
    torch: Any, make: Callable[[Sequence[Any]], Any], steps: int, clip_norm: float | None = None
) -> list[Array]:
    """The same with PyTorch in float64. `make` gives an optimizer of the tensors."""
    tensors = [torch.tensor(array, requires_grad=True) for array in parameters()]
    optimizer = make(tensors)
    for step in range(steps):
        for tensor, slope in zip(tensors, gradients_at(step), strict=True):
            tensor.grad = torch.tensor(slope)
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(tensors, clip_norm)
        optimizer.step()
    return [tensor.detach().numpy() for tensor in tensors]
