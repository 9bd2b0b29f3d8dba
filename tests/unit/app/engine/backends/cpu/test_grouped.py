from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from app.engine.backends.cpu.grouped import BLOCK_ROWS, grouped_matmul, grouped_outer
from app.engine.context import Context, KernelError
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


@pytest.fixture
def context() -> Iterator[Context]:
    pool = Pool(2)
    yield Context(pool)
    pool.close()


def test_more_than_one_block(context: Context) -> None:
    generator = np.random.default_rng(0)
    sizes = np.array([BLOCK_ROWS + 9, 0, 2 * BLOCK_ROWS])
    count = int(sizes.sum()) + 3
    rows, seeds = (generator.standard_normal((count, n)).astype(np.float32) for n in (4, 5))
    weights = generator.standard_normal((3, 4, 5)).astype(np.float32)
    out = np.full((count, 5), np.nan, np.float32)
    grouped_matmul([rows, weights, sizes], [out], {"transpose": False}, context)
    expected = get("grouped_matmul").reference([rows, weights, sizes], {"transpose": False})[0]
    np.testing.assert_allclose(out, expected, atol=1e-5)
    by_group = np.full((3, 4, 5), np.nan, np.float32)
    grouped_outer([rows, seeds, sizes], [by_group], {}, context)
    expected = get("grouped_outer").reference([rows, seeds, sizes], {})[0]
    np.testing.assert_allclose(by_group, expected, atol=1e-3)


def test_wrong_sizes_are_told_with_their_values(context: Context) -> None:
    rows = np.ones((3, 2), np.float32)
    for kernel, other in ((grouped_matmul, np.ones((1, 2, 2), np.float32)), (grouped_outer, rows)):
        with pytest.raises(KernelError) as raised:
            kernel([rows, other, np.array([4])], [np.empty(0)], {"transpose": False}, context)
        assert (raised.value.code, raised.value.values) == ("index_out_of_range", (4, 0, 3))
