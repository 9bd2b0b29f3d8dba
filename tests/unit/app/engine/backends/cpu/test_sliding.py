from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.sliding import fold, window
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


def test_more_than_one_block() -> None:
    array = np.random.default_rng(0).integers(-9, 9, (5, 400, 300)).astype(np.float32)
    shared = {"stride": (2, 2), "dilation": (1, 2), "low": (1, 1)}
    there = {**shared, "window": (3, 2), "high": (0, 1)}
    laid = np.empty((5, 3, 2, 200, 150), np.float32)
    back = {**shared, "space": (400, 300)}
    folded = np.empty_like(array)
    threads = Pool(2)
    try:
        window([array], [laid], there, Context(threads))
        fold([laid], [folded], back, Context(threads))
    finally:
        threads.close()
    np.testing.assert_array_equal(laid, get("window").reference([array], there)[0])
    np.testing.assert_array_equal(folded, get("fold").reference([laid], back)[0])
