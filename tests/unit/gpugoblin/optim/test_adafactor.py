from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.optim.adafactor import Adafactor
from tests.helpers.training import gradients_at, parameters, train, train_torch


def root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(values * values)))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_published_formula(decay: float) -> None:
    values = parameters()
    rows = [np.zeros(value.shape[:-1]) for value in values]
    columns = [np.zeros((*v.shape[:-2], *v.shape[-1:])) for v in values]
    for step in range(4):
        share = (step + 1) ** -0.8
        for n, g in enumerate(gradients_at(step)):
            relative = min(0.01, 1 / np.sqrt(step + 1))
            alpha = max(1e-3, root_mean_square(values[n])) * relative
            square = g * g
            if g.ndim < 2:
                columns[n] = (1 - share) * columns[n] + share * square
                estimate = columns[n]
            else:
                rows[n] = (1 - share) * rows[n] + share * square.mean(-1)
                columns[n] = (1 - share) * columns[n] + share * square.mean(-2)
                estimate = rows[n][..., :, None] * columns[n][..., None, :]
                estimate = estimate / rows[n].mean(-1)[..., None, None]
            way = g / np.sqrt(estimate)
            way = way / max(1.0, root_mean_square(way))
            values[n] = values[n] - 0.01 * decay * values[n] - alpha * way
    for own, expected in zip(train(Adafactor(weight_decay=decay), 4), values, strict=True):
        np.testing.assert_allclose(own, expected, rtol=2e-6)


@pytest.mark.slow  # PyTorch's own loads its compiler: 15 s
def test_against_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    expected = train_torch(
        torch, lambda tensors: torch.optim.Adafactor(tensors, 0.02, weight_decay=0.1), 4
    )
    for own, other in zip(train(Adafactor(0.02, weight_decay=0.1), 4), expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-6)


def test_the_state_is_rows_and_columns() -> None:
    made = Adafactor().step_graph([TensorSpec("float32", (30, 40)), TensorSpec("float32", (0, 2))])
    assert [slot.spec.shape for _, slot in made.state] == [(30, 1), (1, 40), (0, 1), (1, 2)]


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        Adafactor(decay=0.5)
