"""Distances between rows are torch's, with their derivative 0 at 0."""

from __future__ import annotations

import pytest

from tests.helpers.torch_programs import assert_gradients, assert_same, numbers, torch_or_skip

torch = torch_or_skip()


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
def test_every_row_against_every_row(p: float) -> None:
    x, y = numbers(2, 4, 3), numbers(2, 5, 3, seed=1)
    assert_same(lambda x, y: torch.ops.aten._cdist_forward(x, y, p, None), x, y)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_rows_against_those_after_them(p: float) -> None:
    assert_same(lambda x: torch.ops.aten._pdist_forward(x, p), numbers(5, 3))


def test_equal_rows_have_no_derivative() -> None:
    x = numbers(3, 2)
    assert_gradients(lambda a, b: torch.cdist(a, b), x, x.clone())
