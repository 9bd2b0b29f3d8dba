from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.convolution import conv
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


def test_more_than_one_block() -> None:
    generator = np.random.default_rng(0)
    data = generator.integers(-3, 4, (2, 8, 130, 140)).astype(np.float32)
    kernel = generator.integers(-3, 4, (4, 4, 5, 5)).astype(np.float32)
    names = ("stride", "dilation", "low", "high", "between")
    numbers = ((1, 1), (1, 1), (2, 2), (2, 2), (0, 0))
    given = {"groups": 2, **dict(zip(names, numbers, strict=True))}
    out = np.empty((2, 4, 130, 140), np.float32)
    threads = Pool(2)
    try:
        conv([data, kernel], [out], given, Context(threads))
    finally:
        threads.close()
    # Small integers: every order of the sums is exact.
    np.testing.assert_array_equal(out, get("conv").reference([data, kernel], given)[0])
