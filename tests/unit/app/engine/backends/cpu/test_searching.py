from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.searching import searchsorted
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


def test_more_than_one_block() -> None:
    generator = np.random.default_rng(0)
    line = generator.standard_normal(1000).astype(np.float32)
    values = generator.standard_normal((300, 700)).astype(np.float32)
    out = np.empty(values.shape, np.int64)
    given = {"right": False}
    pool = Pool(2)
    try:
        searchsorted([line, values], [out], given, Context(pool))
    finally:
        pool.close()
    np.testing.assert_array_equal(out, get("searchsorted").reference([line, values], given)[0])
