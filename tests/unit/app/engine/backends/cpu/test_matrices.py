from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu.matrices import BLOCK_ELEMENTS, MATRIX_KERNELS
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


@pytest.mark.parametrize("batch", [(), (3, 1000)])
def test_more_than_one_block(batch: tuple[int, ...]) -> None:
    matrices = np.random.default_rng(0).standard_normal((*batch, 12, 12)).astype(np.float32)
    assert not batch or matrices.size > BLOCK_ELEMENTS
    both, order = np.empty(matrices.shape, np.float32), np.empty(matrices.shape[:-1], np.int64)
    pool = Pool(2)
    try:
        MATRIX_KERNELS["lu@1"]([matrices], [both, order], {}, Context(pool))
    finally:
        pool.close()
    expected = get("lu").reference([matrices], {})
    np.testing.assert_array_equal(both, expected[0])
    np.testing.assert_array_equal(order, expected[1])
