from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.errors import GraphError
from gpugoblin.optim.adam import Adam, AdamW
from tests.helpers.training import gradients_at, parameters, train, train_torch

CASES = [
    (Adam, {}),
    (Adam, {"weight_decay": 0.1}),
    (Adam, {"amsgrad": True}),
    (AdamW, {}),
    (AdamW, {"weight_decay": 0.3, "amsgrad": True}),
    (Adam, {"beta1": 0.0}),
]


@pytest.mark.parametrize(("kind", "given"), CASES)
def test_the_published_formula(kind: type[Adam], given: dict[str, float]) -> None:
    values = parameters()
    means = [np.zeros_like(value) for value in values]
    squares, largest = list(means), list(means)
    beta1, beta2, rate = given.get("beta1", 0.9), 0.999, 0.05
    decay = given.get("weight_decay", 0.01 if kind is AdamW else 0.0)
    for step in range(5):
        for n, slope in enumerate(gradients_at(step)):
            g = slope + decay * values[n] if kind is Adam else slope
            if kind is AdamW:
                values[n] = values[n] - rate * decay * values[n]
            means[n] = beta1 * means[n] + (1 - beta1) * g
            squares[n] = beta2 * squares[n] + (1 - beta2) * g * g
            largest[n] = np.maximum(largest[n], squares[n])
            root = np.sqrt((largest if given.get("amsgrad") else squares)[n])
            root = root / np.sqrt(1 - beta2 ** (step + 1))
            values[n] = values[n] - rate * means[n] / (1 - beta1 ** (step + 1)) / (root + 1e-8)
    for own, expected in zip(train(kind(rate, **given), 5), values, strict=True):  # type: ignore[arg-type]
        np.testing.assert_allclose(own, expected, rtol=2e-6)


@pytest.mark.parametrize(("kind", "given"), CASES[:-1])
def test_against_torch(kind: type[Adam], given: dict[str, float]) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    peer = getattr(torch.optim, kind.__name__)
    expected = train_torch(torch, lambda tensors: peer(tensors, 0.05, **given), 5)
    for own, other in zip(train(kind(0.05, **given), 5), expected, strict=True):  # type: ignore[arg-type]
        np.testing.assert_allclose(own, other, rtol=2e-6)


@pytest.mark.parametrize("given", [{"beta1": 1.0}, {"beta2": -0.1}, {"epsilon": -1.0}])
def test_numbers_that_do_not_fit_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        AdamW(**given)  # type: ignore[arg-type]
