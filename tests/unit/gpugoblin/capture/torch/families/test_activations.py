"""Activations are torch's, values and gradients, at their edges and far out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.torch_programs import assert_gradients, assert_same, numbers, torch_or_skip

torch = torch_or_skip()
F = torch.nn.functional

ACTIVATIONS: list[Callable[..., Any]] = [
    *(F.relu, F.relu6, F.hardtanh, F.hardsigmoid, F.hardswish, F.elu, F.celu, F.selu, F.gelu),
    *(F.silu, F.softplus, F.logsigmoid, F.mish, F.leaky_relu, F.tanhshrink, F.softsign),
    lambda x: F.gelu(x, approximate="tanh"),
    lambda x: F.threshold(x, 0.5, -1.0),
    lambda x: F.prelu(x, torch.tensor([0.25])),
    lambda x: F.softmax(x, -1),
    lambda x: F.log_softmax(x, 0),
]


@pytest.mark.parametrize("f", ACTIVATIONS)
def test_values_and_gradients(f: Callable[..., Any]) -> None:
    x = torch.cat([numbers(3, 5), torch.tensor([[0.0, 1.0, -1.0, 3.0, -3.0]])])
    assert_same(f, x)
    assert_gradients(f, x)


@pytest.mark.parametrize("f", [F.elu, F.softplus, F.logsigmoid, F.mish, F.hardswish, F.celu])
def test_no_nan_far_out(f: Callable[..., Any]) -> None:
    x = torch.tensor([-200.0, 200.0, 6.0, -6.0])
    assert_same(f, x)
    assert_gradients(f, x)


def test_safe_softmax_of_a_hidden_row_is_zero() -> None:
    x = torch.tensor([[0.0, 1.0], [-torch.inf, -torch.inf]])
    assert_same(lambda x: torch.ops.aten._safe_softmax(x, -1), x)
