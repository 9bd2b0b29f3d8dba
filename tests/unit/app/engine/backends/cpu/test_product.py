"""Products: which operands BLAS takes, fixed blocks, exact integers."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu import product
from app.engine.backends.cpu.product import blas_ready, matmul_into
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.spec import Array


def multiply(left: Array, right: Array, pool: Pool) -> Array:
    shape = (*left.shape[:-1], right.shape[-1])
    out = np.full(shape, 7, left.dtype)
    matmul_into(left, right, out, Context(pool))
    return out


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 1, 1), (5, 0, 3), (0, 4, 3), (1024, 40, 2048), (1025, 33, 2049), (1, 5000, 1)],
)
def test_float_products(rows: int, inner: int, columns: int, pool: Pool) -> None:
    draw = np.random.default_rng(rows + inner)
    left = draw.standard_normal((rows, inner)).astype(np.float32)
    right = draw.standard_normal((inner, columns)).astype(np.float32)
    expected = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(multiply(left, right, pool), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("batch", [(3,), (2, 5), (0,), (300,)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_batches(batch: tuple[int, ...], dtype: type[np.generic], pool: Pool) -> None:
    draw = np.random.default_rng(5)
    left = draw.integers(-9, 9, (*batch, 6, 4)).astype(dtype)
    right = draw.integers(-9, 9, (*batch, 4, 3)).astype(dtype)
    np.testing.assert_array_equal(multiply(left, right, pool), left @ right)


def test_the_number_of_threads_does_not_matter() -> None:
    draw = np.random.default_rng(6)
    left = draw.standard_normal((1500, 200)).astype(np.float32)
    right = draw.standard_normal((200, 2500)).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        pool = Pool(threads)
        found.append(multiply(left, right, pool).tobytes())
        pool.close()
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(3, 4, 5), (60, 2100, 270), (1, 5000, 1)])
def test_integers_wrap_exactly(
    dtype: type[np.int32 | np.int64], shape: tuple[int, int, int], pool: Pool
) -> None:
    rows, inner, columns = shape
    info = np.iinfo(dtype)
    draw = np.random.default_rng(8)
    left = draw.integers(info.min, info.max, (rows, inner), dtype, endpoint=True)
    right = draw.integers(info.min, info.max, (inner, columns), dtype, endpoint=True)
    left[0, 0] = right[0, 0] = info.min
    with np.errstate(all="ignore"):
        expected = np.matmul(left, right)
    np.testing.assert_array_equal(multiply(left, right, pool), expected)


def test_the_most_negative_integers_everywhere(pool: Pool) -> None:
    for dtype in (np.int32, np.int64):
        worst = np.full((2, product.EXACT_TERMS + 3), np.iinfo(dtype).min, dtype)
        minus = np.full((product.EXACT_TERMS + 3, 2), -1, dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(multiply(worst, minus, pool), worst @ minus)
            np.testing.assert_array_equal(multiply(worst, worst.T, pool), worst @ worst.T)


def test_nan_and_infinity_go_through(pool: Pool) -> None:
    left = np.array([[np.inf, 1], [0, np.nan], [1, 2]], np.float32)
    right = np.array([[1, 0], [-np.inf, 1]], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(multiply(left, right, pool), left @ right)


def test_what_blas_reads() -> None:
    array = np.zeros((6, 8), np.float32)
    for ready in (array, array.T, array[2:4], array[:, 2:5], array[::2], array[:, 2:5].T):
        assert blas_ready(ready)
    assert blas_ready(array[:, :1])
    for other in (array[:, ::2], array[::-1], np.broadcast_to(array[:1], (6, 8))):
        assert not blas_ready(other)
    assert blas_ready(np.broadcast_to(array, (3, 6, 8)))
