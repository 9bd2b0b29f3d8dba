from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.errors import GraphError
from gpugoblin.optim.schedules import Exponential
from gpugoblin.optim.sgd import SGD
from tests.helpers.training import gradients_at, parameters, train, train_torch

CASES = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    {"momentum": 0.8, "nesterov": True},
    {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
]


@pytest.mark.parametrize("given", CASES)
def test_the_published_formula(given: dict[str, float]) -> None:
    values = parameters()
    momenta = [np.zeros_like(value) for value in values]
    mu, decay = given.get("momentum", 0.0), given.get("weight_decay", 0.0)
    for step in range(4):
        for n, slope in enumerate(gradients_at(step)):
            g = slope + decay * values[n]
            if mu:
                momenta[n] = mu * momenta[n] + (1 - given.get("dampening", 0.0)) * g
                momenta[n] = g if step == 0 else momenta[n]
                g = g + mu * momenta[n] if given.get("nesterov") else momenta[n]
            values[n] = values[n] - 0.05 * g
    for own, expected in zip(train(SGD(0.05, **given), 4), values, strict=True):  # type: ignore[arg-type]
        np.testing.assert_allclose(own, expected, rtol=1e-6)


@pytest.mark.parametrize("given", CASES)
def test_against_torch(given: dict[str, float]) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    expected = train_torch(torch, lambda tensors: torch.optim.SGD(tensors, 0.05, **given), 4, 2.0)
    for own, other in zip(train(SGD(0.05, **given), 4, clip_norm=2.0), expected, strict=True):  # type: ignore[arg-type]
        np.testing.assert_allclose(own, other, rtol=1e-6)


def test_a_schedule_is_the_rate_of_each_step() -> None:
    found = train(SGD(Exponential(0.5, 0.25)), 3)
    slopes = [gradients_at(step)[1] for step in range(3)]
    expected = parameters()[1] - sum(0.5 * 0.25**step * g for step, g in enumerate(slopes))
    np.testing.assert_allclose(found[1], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "given",
    [{"momentum": 1.0}, {"weight_decay": -1.0}, {"nesterov": True}, {"dampening": 2.0}],
)
def test_numbers_that_do_not_fit_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        SGD(0.1, **given)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="attribute_invalid"):
        SGD(float("nan"))
