from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.errors import GraphError
from gpugoblin.optim.lion import Lion
from tests.helpers.training import gradients_at, parameters, train


@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_the_published_formula(decay: float) -> None:
    values = parameters()
    momenta = [np.zeros_like(value) for value in values]
    for step in range(5):
        for n, g in enumerate(gradients_at(step)):
            way = np.sign(0.9 * momenta[n] + 0.1 * g)
            momenta[n] = 0.99 * momenta[n] + 0.01 * g
            values[n] = values[n] - 0.05 * (way + decay * values[n])
    for own, expected in zip(train(Lion(0.05, weight_decay=decay), 5), values, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-6)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        Lion(beta2=1.0)
