"""Draws have the distributions that torch's have, and a key gives the same ones again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpugoblin.graph.interpret import interpret
from tests.helpers.torch_programs import lowered, torch_or_skip

torch = torch_or_skip()
COUNT = 4000


def drawn(f: Callable[..., Any], *given: Any, key: int = 1) -> Any:
    found = lowered(f, *given)
    assert found.random
    arrays = [
        np.array([key, 0], np.int64) if one.kind == "key" else given[0].numpy()
        for one in found.inputs
    ]
    return interpret(found.graph, arrays)[0]


X = torch.zeros(COUNT)


@pytest.mark.parametrize(
    ("f", "mean", "spread"),
    [
        (lambda x: torch.ops.aten.exponential(x, 2.0), 0.5, 0.5),
        (lambda x: torch.ops.aten.geometric(x, 0.25), 4.0, 3.4641),
        (lambda x: torch.ops.aten.log_normal(x, 0.0, 0.25), 1.0317, 0.2620),
    ],
    ids=["exponential", "geometric", "log_normal"],
)
def test_mean_and_spread(f: Callable[..., Any], mean: float, spread: float) -> None:
    found = drawn(f, X)
    assert found.shape == (COUNT,)
    # Four deviations of a mean, and of a spread with a heavy tail.
    assert abs(found.mean() - mean) < 4 * spread / COUNT**0.5
    assert abs(found.std() - spread) < 0.15 * spread
    np.testing.assert_array_equal(found, drawn(f, X))
    assert (found != drawn(f, X, key=2)).any()


def test_cauchy_has_its_quartiles() -> None:
    found = drawn(lambda x: torch.ops.aten.cauchy(x, 1.0, 2.0), X)
    np.testing.assert_allclose(np.quantile(found, [0.25, 0.5, 0.75]), [-1, 1, 3], atol=0.3)


@pytest.mark.parametrize("again", [True, False])
def test_multinomial_draws_by_weight(again: bool) -> None:
    weights = torch.tensor([[0.0, 1.0, 3.0, 0.0]]).repeat(COUNT, 1)
    found = drawn(lambda w: torch.multinomial(w, 1, replacement=again), weights)
    assert found.shape == (COUNT, 1)
    shares = np.bincount(found.ravel(), minlength=4) / COUNT
    np.testing.assert_allclose(shares, [0, 0.25, 0.75, 0], atol=0.03)


def test_multinomial_without_replacement_draws_each_once() -> None:
    found = drawn(lambda w: torch.multinomial(w, 4), torch.ones(50, 4))
    np.testing.assert_array_equal(np.sort(found, 1), np.tile(np.arange(4), (50, 1)))


def test_randperm_is_a_permutation() -> None:
    found = drawn(lambda x: torch.randperm(20) + x, torch.zeros(20))
    np.testing.assert_array_equal(np.sort(found), np.arange(20))
    assert (found != np.arange(20)).any()


def test_rrelu_draws_slopes_below_zero() -> None:
    def bent(x: Any) -> Any:
        return torch.ops.aten.rrelu_with_noise_functional(x, x, 0.1, 0.3, True)[0]

    found = drawn(bent, -torch.ones(COUNT))
    assert found.min() > -0.3001
    assert found.max() < -0.0999
    assert abs(found.mean() + 0.2) < 0.01
