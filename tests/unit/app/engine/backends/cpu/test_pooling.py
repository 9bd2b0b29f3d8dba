from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.pooling import pool
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


def test_more_than_one_block() -> None:
    array = np.random.default_rng(0).standard_normal((5, 400, 300)).astype(np.float32)
    out = np.empty((5, 200, 150), np.float32)
    names = ("window", "stride", "dilation", "low", "high")
    numbers = ((3, 3), (2, 2), (1, 1), (1, 1), (0, 0))
    given = {"function": "max", **dict(zip(names, numbers, strict=True))}
    threads = Pool(2)
    try:
        pool([array], [out], given, Context(threads))
    finally:
        threads.close()
    np.testing.assert_array_equal(out, get("pool").reference([array], given)[0])
