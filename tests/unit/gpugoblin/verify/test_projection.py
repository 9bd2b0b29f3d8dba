"""Secrets and projections."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.verify.projection import (
    BLOCK_COLUMNS,
    DENSE_VECTORS,
    INTEGER_VECTORS,
    ColumnSizes,
    ProjectionSum,
    block_width,
    draw,
    right_hand,
    vector_count,
)


@pytest.mark.parametrize("columns", [0, 1, 16, 300, 2048, 4100])
def test_block_set_covers_every_column_once(columns: int) -> None:
    secret = draw(columns, "float32")
    blocks = secret.matrix[:, : secret.blocks]
    assert secret.blocks == -(-columns // block_width(columns))
    assert vector_count(columns, "float32") == secret.matrix.shape[1]
    assert ((blocks != 0).sum(axis=1) == 1).all()
    size = np.abs(blocks[blocks != 0])
    assert ((size >= 0.97) & (size <= 1.03)).all()
    np.testing.assert_array_equal(blocks.sum(axis=1), secret.signs)
    assert secret.matrix.shape[1] == secret.blocks + DENSE_VECTORS


def test_dense_entries_are_bounded_and_of_any_size() -> None:
    """An element that makes a whole row counts little more in a vector than in the row's size."""
    secret = draw(5000, "float32")
    dense = secret.matrix[:, secret.blocks :]
    assert np.abs(dense).max() <= np.float32(3**0.5)
    assert abs(float(np.square(dense).mean()) - 1) < 0.05
    assert abs(float(dense.mean())) < 0.05
    assert np.unique(dense).size > 0.99 * dense.size


def test_width() -> None:
    assert [block_width(n) for n in (0, 1, 31, 32, 2048, 4096, 10**6)] == [
        1,
        1,
        1,
        2,
        128,
        112,
        112,
    ]
    assert BLOCK_COLUMNS == 128


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_vectors(dtype: str) -> None:
    secret = draw(1000, dtype)
    assert secret.matrix.dtype == np.dtype(dtype)
    assert secret.matrix.shape == (1000, INTEGER_VECTORS) == (1000, vector_count(1000, dtype))
    assert (secret.matrix[:, 0] & 1 == 1).all()
    assert 300 < (secret.matrix[:, 1] & 1).sum() < 700


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_secrets_are_fresh(dtype: str) -> None:
    assert not np.array_equal(draw(50, dtype).matrix, draw(50, dtype).matrix)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_pieces_give_the_same_projection(dtype: str) -> None:
    random = np.random.default_rng(0)
    right = random.integers(-9, 9, (70, 300)).astype(dtype)
    secret = draw(300, dtype)
    whole = right_hand(right, secret)
    rows, columns = ProjectionSum(secret, 70), ProjectionSum(secret, 70)
    for first in range(0, 70, 13):
        rows.add_rows(first, right[first : first + 13])
    for first in range(0, 300, 77):
        columns.add_columns(first, right[:, first : first + 77])
    for other in (rows.right_hand(), columns.right_hand()):
        np.testing.assert_allclose(other.projected, whole.projected, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(other.gain, whole.gain, rtol=1e-5)
        assert other.finite


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e25, 1e-25])
def test_what_cannot_be_used(bad: float) -> None:
    right = np.full((4, 64), bad, np.float32)
    assert not right_hand(right, draw(64, "float32")).finite


def test_zero_is_fine() -> None:
    assert right_hand(np.zeros((4, 64), np.float32), draw(64, "float32")).finite


def test_columns_are_brought_to_one_size_by_powers_of_two() -> None:
    random = np.random.default_rng(1)
    size = np.exp2(random.uniform(-30, 30, 200)).astype(np.float32)
    right = random.standard_normal((64, 200)).astype(np.float32) * size
    right[:, 9] = 0
    whole, rows, columns = ColumnSizes(64, 200), ColumnSizes(64, 200), ColumnSizes(64, 200)
    whole.add(0, right)
    for first in range(0, 64, 13):
        rows.add(0, right[first : first + 13])
    for first in range(0, 200, 77):
        columns.add(first, right[:, first : first + 77])
    scale = whole.scale()
    assert scale.finite
    assert scale.zeros.tolist() == [9]
    assert scale.weights is not None
    assert (np.frexp(scale.weights)[0] == 0.5).all(), "powers of two change no digit"
    norms = np.delete(np.linalg.norm(right * scale.weights, axis=0), 9)
    assert norms.max() / norms.min() < 8.1
    for other in (rows.scale(), columns.scale()):
        np.testing.assert_array_equal(other.weights, scale.weights)
        np.testing.assert_array_equal(other.zeros, scale.zeros)


def test_columns_of_one_size_are_left_alone() -> None:
    sizes = ColumnSizes(64, 100)
    sizes.add(0, np.random.default_rng(2).standard_normal((64, 100)).astype(np.float32))
    assert sizes.scale().weights is None


def test_a_column_whose_squares_vanish_is_no_column_of_zeros() -> None:
    right = np.ones((4, 64), np.float32)
    right[:, 5] = 1e-30
    scale = ColumnSizes(4, 64)
    scale.add(0, right)
    assert scale.scale().zeros.size == 0
    assert not right_hand(right, draw(64, "float32")).finite


@pytest.mark.parametrize("terms", [1, 2, 3, 30])
def test_an_error_that_was_chosen_is_seldom_small_under_a_dense_vector(terms: int) -> None:
    """0.82 t / |e| at most (K. Ball's bound of the sections of a cube), whatever was chosen."""
    secret = draw(1 << 16, "float32")
    dense = secret.matrix[:, secret.blocks :].astype(np.float64).T.reshape(-1)
    count = dense.size // terms
    seen = np.abs(dense[: count * terms].reshape(count, terms).sum(axis=1) / terms**0.5)
    for t in (0.05, 0.2):
        chance = 0.82 * t
        assert (seen <= t).mean() <= chance + 5 * (chance / count) ** 0.5
