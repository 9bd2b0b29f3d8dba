"""Arithmetic, comparisons and logic are torch's, values, dtypes and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.torch_programs import (
    assert_gradients,
    assert_same,
    numbers,
    torch_or_skip,
)

torch = torch_or_skip()

BINARY: list[Callable[..., Any]] = [
    lambda x, y: x + y,
    lambda x, y: torch.sub(x, y, alpha=3),
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: torch.div(x, y, rounding_mode="floor"),
    lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    torch.minimum,
    torch.maximum,
    torch.fmin,
    torch.fmax,
    torch.atan2,
    torch.remainder,
    torch.fmod,
    torch.hypot,
    torch.logaddexp,
    torch.copysign,
    lambda x, y: torch.lerp(x, y, 0.3),
    lambda x, y: torch.addcmul(x, y, x, value=0.5),
    lambda x, y: torch.addcdiv(x, x, y, value=0.5),
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: x.masked_fill(y > 0, 2.0),
    lambda x, y: torch.special.xlogy(x, y.abs()),
]
UNARY: list[Callable[..., Any]] = [
    *(torch.exp, torch.expm1, torch.sin, torch.cos, torch.tanh, torch.erf, torch.sigmoid),
    *(torch.abs, torch.neg, torch.square, torch.sign, torch.floor, torch.ceil, torch.trunc),
    *(torch.round, torch.frac, torch.signbit, torch.isnan, torch.isinf, torch.isfinite),
    lambda x: x.abs().sqrt(),
    lambda x: x.abs().rsqrt(),
    lambda x: x.reciprocal(),
    *(lambda x: x**2, lambda x: x**3, lambda x: x**-1, lambda x: x**0, lambda x: x**-2),
    lambda x: x.abs() ** 1.5,
    lambda x: 2.0**x,
    lambda x: torch.clamp(x, -0.5, 0.5),
    lambda x: torch.clamp(x, min=0.0),
    lambda x: torch.clamp_max(x, 0.25),
    lambda x: 1 - x,
]


@pytest.mark.parametrize("f", BINARY)
def test_two_operands(f: Callable[..., Any]) -> None:
    assert_same(f, numbers(3, 4), numbers(4, seed=1))


@pytest.mark.parametrize("f", UNARY)
def test_one_operand(f: Callable[..., Any]) -> None:
    assert_same(f, numbers(3, 4))


@pytest.mark.parametrize("f", [BINARY[0], BINARY[1], BINARY[2], BINARY[3], torch.hypot])
def test_gradients_of_two(f: Callable[..., Any]) -> None:
    assert_gradients(f, numbers(3, 4), numbers(4, seed=1))


def test_clamp_passes_the_gradient_at_its_edge_as_torch_does() -> None:
    assert_gradients(lambda x: torch.clamp(x, 0.0, 1.0), torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0]))


@pytest.mark.parametrize(
    "f",
    [
        lambda i, j: i + j,
        lambda i, j: i / j,
        lambda i, j: i // j,
        lambda i, j: torch.div(i, j, rounding_mode="trunc"),
        lambda i, j: i % j,
        lambda i, j: i + 0.5,
        lambda i, j: i & j,
        lambda i, j: i << 2,
        lambda i, j: i**2,
        lambda i, j: (i > j) | (i == 3),
        lambda i, j: torch.logical_xor(i, j),
        lambda i, j: (i > j) + (i < j),
        lambda i, j: ~(i > j),
        lambda i, j: i.float() * (j > 1),
        lambda i, j: torch.sin(i),
    ],
)
def test_integers_and_bools_promote_as_in_torch(f: Callable[..., Any]) -> None:
    assert_same(f, torch.tensor([-7, 3, 5, 8]), torch.tensor([2, 3, -2, 1]))


def test_a_scalar_tensor_does_not_widen_a_line() -> None:
    assert_same(lambda x, y: x + y, torch.arange(3, dtype=torch.int32), torch.tensor(5))
