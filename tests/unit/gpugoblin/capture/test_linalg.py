"""Linear algebra that is products and sums, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree, compute

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


def test_factors() -> None:
    square = X[:, :3, :3] @ X[:, :3, :3].mT + np.eye(3, dtype=np.float32)
    agree(gg.linalg.cholesky(square), np.linalg.cholesky(square), absolute=1e-5)
    agree(gg.linalg.cholesky(square, upper=True).mT, np.linalg.cholesky(square), absolute=1e-5)
    agree(gg.linalg.det(square), np.linalg.det(square), absolute=1e-4)
    sign, logarithm = gg.linalg.slogdet(-square)
    agree(sign, [-1, -1])
    agree(logarithm, np.linalg.slogdet(square).logabsdet, absolute=1e-5)
    agree(gg.linalg.inv(square), np.linalg.inv(square), absolute=1e-4)
    agree(gg.linalg.solve(square, X[0, :3]), np.linalg.solve(square, X[0, :3]), absolute=1e-4)
    agree(gg.linalg.solve(square[0], X[0, 0, :3]), np.linalg.solve(square[0], X[0, 0, :3]), 1e-4)
    agree(gg.linalg.eigvalsh(square), np.linalg.eigvalsh(square), absolute=1e-4)
    values, vectors = gg.linalg.eigh(square)
    agree(square @ vectors, compute(vectors) * compute(values)[:, None], absolute=1e-4)
    wide = X[:, :3]
    q, r = gg.linalg.qr(wide)
    agree(q @ r, wide, absolute=1e-5)
    u, s, v = gg.linalg.svd(wide, full_matrices=False)
    agree((u * gg.expand_dims(s, -2)) @ v, wide, absolute=1e-5)
    agree(gg.linalg.svdvals(wide), np.linalg.svdvals(wide), absolute=1e-5)
    agree(gg.linalg.pinv(wide), np.linalg.pinv(wide), absolute=1e-4)
    agree(gg.linalg.matrix_rank(np.outer(X[0, 0], X[0, 1])), 1)
    for wrong in (lambda: gg.linalg.svd(wide), lambda: gg.linalg.qr(wide, mode="complete")):
        with pytest.raises(CaptureError, match="function_refused"):
            wrong()


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute"):
        _ = gg.linalg.nonsense


def test_low_rank_singular_vectors() -> None:
    random = np.random.default_rng(1)
    exact = random.normal(size=(60, 5)) @ random.normal(size=(5, 40))
    matrix = (exact + 1e-3 * random.normal(size=(60, 40))).astype(np.float32)
    found = gg.linalg.svd_lowrank(matrix, 5, oversample=8)
    left, values, right = (compute(part) for part in found)
    expected = np.linalg.svd(matrix.astype(np.float64), compute_uv=False)
    assert (left.shape, values.shape, right.shape) == ((60, 5), (5,), (5, 40))
    np.testing.assert_allclose(values, expected[:5], rtol=1e-5)
    assert np.linalg.norm(left * values @ right - matrix) < 1.001 * np.linalg.norm(expected[5:])
    same = gg.linalg.svd_lowrank(matrix, 5, oversample=8, seed=0)
    np.testing.assert_array_equal(compute(same.S), values)
    for rank in (0, 41):
        with pytest.raises(CaptureError, match="argument_refused"):
            gg.linalg.svd_lowrank(matrix, rank)


def test_triangular_systems() -> None:
    triangle = np.triu(X[0]) + 3 * np.eye(4, dtype=np.float32)
    agree(gg.linalg.solve_triangular(triangle, X[1]), np.linalg.solve(triangle, X[1]))
    agree(
        gg.linalg.solve_triangular(triangle, X[1], transpose=True),
        np.linalg.solve(triangle.T, X[1]),
    )
    agree(
        gg.linalg.solve_triangular(triangle.T.copy(), X[1], lower=True),
        np.linalg.solve(triangle.T, X[1]),
    )
