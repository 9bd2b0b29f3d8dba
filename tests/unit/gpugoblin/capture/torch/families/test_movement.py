"""Views, joins and cuts are torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.torch_programs import assert_gradients, assert_same, numbers, torch_or_skip

torch = torch_or_skip()

MOVES: list[Callable[..., Any]] = [
    lambda x: x.view(3, -1),
    lambda x: x.reshape(-1),
    lambda x: x.permute(2, 0, -2),
    lambda x: x.transpose(0, -1),
    lambda x: x[0].t(),
    lambda x: x.unsqueeze(1).squeeze(1),
    lambda x: x[:, :1].squeeze(),
    lambda x: x[:, :1].expand(-1, 4, -1),
    lambda x: x[:, 1:3:2, -2:],
    lambda x: x[1, ..., 2],
    lambda x: x.narrow(2, 1, 2),
    lambda x: x.split(2, 2),
    lambda x: x.split([1, 3], 2),
    lambda x: x.chunk(3, 2),
    lambda x: x.unbind(1),
    lambda x: torch.cat([x, x + 1], -1),
    lambda x: torch.stack([x, x + 1], 1),
    lambda x: x.flip(0, 2),
    lambda x: x.repeat(2, 1, 3),
    lambda x: x.repeat(2, 1, 2, 1, 1),
    lambda x: torch.roll(x, (1, -2), (0, 2)),
    lambda x: torch.roll(x, 5),
    lambda x: x.diagonal(0, 1, 2),
    lambda x: x.diagonal(1, 0, 2),
    lambda x: x.diagonal(-1, 1, 2),
    lambda x: x.unfold(2, 2, 1),
    lambda x: torch.as_strided(x, (2, 3), (12, 2), 1),
    lambda x: torch.tril(x, 1),
    lambda x: torch.triu(x),
]


@pytest.mark.parametrize("f", MOVES)
def test_values_and_gradients(f: Callable[..., Any]) -> None:
    assert_same(f, numbers(2, 3, 4))
    assert_gradients(f, numbers(2, 3, 4))


def test_an_empty_line_joins_anything() -> None:
    assert_same(lambda x, e: torch.cat([e, x], 1), numbers(2, 3), torch.zeros(0))


def test_complex_numbers_move_in_both_parts() -> None:
    z = torch.complex(numbers(2, 3), numbers(2, 3, seed=1))
    assert_same(lambda z: torch.cat([z.t(), z.t()]).flip(0), z)
