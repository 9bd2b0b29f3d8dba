"""Linear algebra that is products and sums, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree

X = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)


def test_products() -> None:
    agree(gg.linalg.outer(X[0, 0], X[0, 1]), np.outer(X[0, 0], X[0, 1]))
    agree(gg.linalg.cross(X[..., :3], X[..., 1:]), np.cross(X[..., :3], X[..., 1:]))
    for n in (0, 1, 5):
        agree(gg.linalg.matrix_power(X, n), np.linalg.matrix_power(X, n), absolute=1e-4)
    with pytest.raises(CaptureError, match="argument_refused"):
        gg.linalg.matrix_power(X, -1)


@pytest.mark.parametrize("offset", [-5, -1, 0, 2])
def test_diagonals(offset: int) -> None:
    wide = X[:, :3]
    agree(gg.linalg.diagonal(wide, offset=offset), wide.diagonal(offset, 1, 2))
    agree(gg.linalg.trace(wide, offset=offset), wide.trace(offset, 1, 2))


def test_norms() -> None:
    for order in (0, 1, 2, 3, -2, np.inf, -np.inf):
        agree(gg.linalg.vector_norm(X, axis=1, ord=order), np.linalg.norm(X, order, axis=1))
    agree(gg.linalg.vector_norm(X), np.linalg.norm(X))
    for order in ("fro", 1, -1, np.inf, -np.inf):
        wanted = np.linalg.norm(X, order, axis=(1, 2), keepdims=True)
        agree(gg.linalg.matrix_norm(X, ord=order, keepdims=True), wanted)  # type: ignore[arg-type]
        agree(gg.linalg.matrix_norm(X, ord=order), wanted[:, 0, 0])  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="function_refused"):
        gg.linalg.matrix_norm(X, ord=2)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute"):
        _ = gg.linalg.nonsense
