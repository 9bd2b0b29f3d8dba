from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.scan import scan_reduce
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


def test_more_than_one_block() -> None:
    generator = np.random.default_rng(0)
    array = generator.integers(-(2**31), 2**31, (3, 200_000), np.int32)
    out = np.empty_like(array)
    given = {"axis": 1, "function": "sum", "reverse": True}
    pool = Pool(2)
    try:
        scan_reduce([array], [out], given, Context(pool))
    finally:
        pool.close()
    np.testing.assert_array_equal(out, get("scan_reduce").reference([array], given)[0])
