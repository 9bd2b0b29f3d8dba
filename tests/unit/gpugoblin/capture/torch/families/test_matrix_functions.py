"""Functions of matrices are torch's."""

from __future__ import annotations

import pytest

from tests.helpers.torch_programs import assert_gradients, assert_same, numbers, torch_or_skip

torch = torch_or_skip()


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.3, 2.0, 9.0])
def test_the_exponential(scale: float) -> None:
    x = numbers(2, 4, 4) * scale
    assert_same(torch.linalg.matrix_exp, x, tolerance=5e-6)
    assert_gradients(torch.linalg.matrix_exp, x, tolerance=2e-5)


def test_the_inverse_of_a_factored_matrix() -> None:
    x = numbers(4, 4)
    matrix = x @ x.T + 4 * torch.eye(4)
    assert_same(torch.cholesky_inverse, torch.linalg.cholesky(matrix))
    upper = torch.linalg.cholesky(matrix).T.contiguous()
    assert_same(lambda x: torch.cholesky_inverse(x, upper=True), upper)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 3)])
def test_the_pseudoinverse(shape: tuple[int, ...]) -> None:
    assert_same(torch.ops.aten.linalg_pinv, numbers(*shape), tolerance=5e-6)


def test_small_singular_values_count_as_none() -> None:
    x = numbers(4, 1) @ numbers(1, 3, seed=1)
    assert_same(torch.ops.aten.linalg_pinv, x, tolerance=5e-6)
