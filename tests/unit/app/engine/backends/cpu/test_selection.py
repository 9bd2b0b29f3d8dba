"""gather, topk and cast on sizes that need more than one block."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu.selection import SHORT_ROW, cast, gather, topk
from app.engine.context import Context, KernelError
from app.engine.pool import Pool
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import Array


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("indices_shape", [(), (5,), (60, 40), (0,)])
def test_gather(axis: int, indices_shape: tuple[int, ...], pool: Pool) -> None:
    draw = np.random.default_rng(15)
    data = draw.standard_normal((50, 30, 70)).astype(np.float32)
    indices = np.asarray(draw.integers(0, data.shape[axis], indices_shape)).astype(np.int32)
    expected = np.take(data, indices, axis=axis)
    out = np.empty(expected.shape, np.float32)
    gather([data, indices], [out], {"axis": axis}, Context(pool))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("wrong", [-1, 3, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("shape", [(3, 4), (3, 0)])
def test_gather_refuses_a_wrong_index_whoever_needed_it(
    wrong: int, shape: tuple[int, int], pool: Pool
) -> None:
    indices = np.zeros(70_000, np.int32)
    indices[69_999] = wrong
    out = np.empty((70_000, shape[1]), np.float32)
    with pytest.raises(KernelError) as caught:
        gather([np.zeros(shape, np.float32), indices], [out], {"axis": 0}, Context(pool))
    assert caught.value.values == (wrong, 0, 3)


def rows_with_ties(dtype: type[np.generic], extent: int) -> Array:
    draw = np.random.default_rng(extent)
    rows = np.asarray(draw.integers(-9, 9, (6, extent))).astype(dtype)
    if dtype is np.float32:
        rows[1, ::7] = np.nan
        rows[2] = np.nan
        rows[3, ::5] = np.inf
        rows[4, ::3] = -0.0
    return rows


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("extent", [9, SHORT_ROW, SHORT_ROW + 1, 5000])
@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("axis", [0, 1])
def test_topk_by_either_way_is_the_reference(
    dtype: type[np.generic], largest: bool, extent: int, count: int, axis: int, pool: Pool
) -> None:
    rows = rows_with_ties(dtype, extent)
    source = rows if axis == 1 else np.ascontiguousarray(rows.T)
    attributes = {"axis": axis, "k": count, "largest": largest}
    values, indices = OPERATORS["topk@1"].reference([source], attributes)
    found = [np.empty_like(values), np.full_like(indices, -1)]
    topk([source], found, attributes, Context(pool))
    np.testing.assert_array_equal(found[1], indices)
    np.testing.assert_array_equal(found[0], values)


def test_cast_over_blocks(pool: Pool) -> None:
    source = np.random.default_rng(16).standard_normal((300, 500)).astype(np.float32) * 1e10
    for array in (source, source.T, source[0, 0, ...]):
        out = np.empty(array.shape, np.int32)
        cast([array], [out], {"dtype": "int32"}, Context(pool))
        (expected,) = OPERATORS["cast@1"].reference([np.asarray(array)], {"dtype": "int32"})
        np.testing.assert_array_equal(out, expected)
