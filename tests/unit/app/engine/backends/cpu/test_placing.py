"""More elements than one block has; the rest is in the conformance suite."""

from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.placing import FILL_ELEMENTS, iota, pad
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


def test_more_than_one_block() -> None:
    out = np.empty(2 * FILL_ELEMENTS + 5, np.int64)
    data, value = np.ones((700, 300), np.float32), np.array(7, np.float32)
    given = {"low": (3, 0), "high": (0, 1), "between": (1, 0)}
    (expected,) = get("pad").reference([data, value], given)
    padded = np.empty_like(expected)
    pool = Pool(2)
    try:
        iota([], [out], {"count": out.size, "dtype": "int64"}, Context(pool))
        pad([data, value], [padded], given, Context(pool))
    finally:
        pool.close()
    np.testing.assert_array_equal(out, np.arange(out.size))
    np.testing.assert_array_equal(padded, expected)
