from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpugoblin.catalog.ops.factoring import CHOLESKY, LU, QR, factor_lu
from gpugoblin.catalog.spec import Array, Operator
from gpugoblin.graph.numeric import agrees


def bounds(operator: Operator, matrix: Array, outputs: tuple[Array, ...]) -> tuple[Array, ...]:
    propagate = operator.tolerance.propagate
    assert propagate is not None
    found = propagate([matrix], [None], outputs, {})
    assert all(one is not None for one in found)
    return tuple(np.asarray(one) for one in found)


def test_lu_over_blocks() -> None:
    matrices = np.random.default_rng(0).standard_normal((2, 150, 150))
    both, order = factor_lu(matrices)
    lower, upper = np.tril(both, -1) + np.eye(150), np.triu(both)
    rows = np.take_along_axis(matrices, order[:, :, None], 1)
    np.testing.assert_allclose(lower @ upper, rows, atol=1e-10)
    assert np.abs(np.tril(both, -1)).max() <= 1.0


def test_lu_takes_the_first_of_equal_pivots_and_zeros_stay() -> None:
    both, order = LU.reference([np.array([[1, 2], [-1, 3]], np.float32)], {})
    assert order.tolist() == [0, 1]
    assert both.tolist() == [[1, 2], [-1, 5]]
    both, order = LU.reference([np.zeros((2, 2), np.float32)], {})
    assert both.tolist() == [[0, 0], [0, 0]]
    assert order.tolist() == [0, 1]


def test_equal_pivots_leave_everything_open_and_clear_ones_nothing() -> None:
    for value, is_open in ((1.0, True), (0.5, False)):
        matrix = np.array([[1, 2], [value, 3]], np.float32)
        outputs = LU.reference([matrix], {})
        of_both, of_order = bounds(LU, matrix, outputs)
        assert np.isinf(of_both).all() == is_open
        assert np.isinf(of_order).all() == is_open
        assert is_open or of_order.max() == 0


@given(some.integers(1, 10), some.integers(0, 2**32))
def test_cholesky_in_float32_is_within_the_bound(extent: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    root = generator.standard_normal((extent, extent + 2)).astype(np.float32)
    matrix = root @ root.T
    outputs = CHOLESKY.reference([matrix], {})
    try:
        found = np.linalg.cholesky((matrix + matrix.T) / 2)
    except np.linalg.LinAlgError:
        found = np.full(matrix.shape, np.nan, np.float32)
    assert agrees(found, outputs[0], bounds(CHOLESKY, matrix, outputs)[0]).all()


def test_cholesky_of_what_is_not_positive_definite() -> None:
    matrix = np.array([[[1, 2], [2, 1]], [[1, 0], [0, 0]], [[4, 2], [0, 2]]], np.float32)
    outputs = CHOLESKY.reference([matrix], {})
    assert np.isnan(outputs[0][:2]).all(axis=(1, 2)).tolist() == [True, True]
    half = np.array([[4, 1], [1, 2]])
    np.testing.assert_allclose(outputs[0][2], np.linalg.cholesky(half), rtol=1e-6)
    (bound,) = bounds(CHOLESKY, matrix, outputs)
    assert bound[0].max() < 1e-30  # surely indefinite: NaN for everyone
    assert np.isinf(bound[1]).all()  # on the edge


@pytest.mark.parametrize("shape", [(5, 3), (4, 4), (3, 5)])
def test_qr_has_a_positive_diagonal_and_float32_is_within_the_bound(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(5)
    for _ in range(30):
        matrix = generator.standard_normal(shape).astype(np.float32)
        q, r = QR.reference([matrix], {})
        assert np.diagonal(r).min() >= 0
        assert np.array_equal(r, np.triu(r))
        np.testing.assert_allclose(q @ r, matrix, atol=1e-5)
        other_q, other_r = np.linalg.qr(matrix)
        sign = np.where(np.diagonal(other_r) < 0, -1, 1).astype(np.float32)
        of_q, of_r = bounds(QR, matrix, (q, r))
        assert agrees(other_q * sign, q, of_q).all()
        assert agrees(other_r * sign[:, None], r, of_r).all()
        assert np.isfinite(of_q).all()


def test_dependent_columns_leave_q_open() -> None:
    matrix = np.array([[1, 2], [1, 2], [1, 2]], np.float32)
    outputs = QR.reference([matrix], {})
    assert np.isinf(bounds(QR, matrix, outputs)[0]).all()
