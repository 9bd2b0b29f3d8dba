"""More elements and threads than the conformance samples have."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu.scattering import scatter
from app.engine.context import Context, KernelError
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


@pytest.mark.parametrize("function", ["set", "add", "min", "max"])
@pytest.mark.parametrize("shape", [(50, 3), (5, 40_000), (7, 1)])
def test_many_rows_and_long_ones(shape: tuple[int, int], function: str) -> None:
    generator = np.random.default_rng(0)
    data = generator.integers(-9, 9, (2, *shape), np.int32)
    indices = generator.integers(0, shape[0], 90, np.int32)
    updates = generator.integers(-99, 99, (2, 90, shape[1]), np.int32)
    out = np.empty_like(data)
    given = {"axis": 1, "function": function}
    pool = Pool(2)
    try:
        scatter([data, indices, updates], [out], given, Context(pool))
    finally:
        pool.close()
    np.testing.assert_array_equal(out, get("scatter").reference([data, indices, updates], given)[0])


def test_a_wrong_index_is_named() -> None:
    data, updates = np.zeros(3, np.float32), np.zeros(1, np.float32)
    pool = Pool(1)
    try:
        with pytest.raises(KernelError) as raised:
            scatter(
                [data, np.array([5]), updates],
                [data.copy()],
                {"axis": 0, "function": "add"},
                Context(pool),
            )
    finally:
        pool.close()
    assert raised.value.values == (5, 0, 3)
