"""Q R of tall matrices by a tree."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.spec import Array
from tests.helpers.algebra import computed, program


def tall(rows: int = 9000, columns: int = 12) -> tuple[Array, Array, Array]:
    """A matrix, and its factors with a positive diagonal."""
    matrix = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    q, r = np.linalg.qr(matrix.astype(np.float64))
    signs = np.sign(np.diag(r))
    return matrix, q * signs, r * signs[:, None]


@pytest.mark.parametrize("limit", [400_000, 1_000_000])
def test_both_factors(limit: int) -> None:
    matrix, q, r = tall()
    graph = program([matrix.shape], lambda build, x: build.add_many("qr", x))
    plan, found = computed(graph, [matrix], limit)
    assert plan.count > 10
    np.testing.assert_allclose(found[0], q, atol=1e-6)
    np.testing.assert_allclose(found[1], r, atol=1e-4)


def test_r_alone_makes_no_q() -> None:
    matrix, _, r = tall()
    both = program([matrix.shape], lambda build, x: build.add_many("qr", x))
    alone = program([matrix.shape], lambda build, x: build.add_many("qr", x)[1:])
    plan, (found,) = computed(alone, [matrix], 400_000)
    assert plan.count < computed(both, [matrix], 400_000)[0].count
    np.testing.assert_allclose(found, r, atol=1e-4)


def test_dependent_columns_keep_q_orthonormal() -> None:
    """Where a factorization through products of the matrix with itself would fail."""
    matrix, _, _ = tall(columns=6)
    matrix[:, 5] = matrix[:, 0] + 1e-5 * matrix[:, 1]
    graph = program([matrix.shape], lambda build, x: build.add_many("qr", x))
    _, (q, r) = computed(graph, [matrix], 400_000)
    np.testing.assert_allclose(q.T @ q, np.eye(6), atol=1e-5)
    np.testing.assert_allclose(q @ r, matrix, atol=1e-4)
