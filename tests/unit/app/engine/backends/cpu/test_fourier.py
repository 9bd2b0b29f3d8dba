from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.fourier import BLOCK_ELEMENTS, fft
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


def test_more_than_one_block() -> None:
    array = np.random.default_rng(0).standard_normal((300, 2000)).astype(np.float32)
    assert array.size > BLOCK_ELEMENTS
    given = {"axes": (1,), "inverse": False, "kind": "r2c", "length": 0, "norm": "ortho"}
    out = np.empty((300, 1001, 2), np.float32)
    pool = Pool(2)
    try:
        fft([array], [out], given, Context(pool))
    finally:
        pool.close()
    np.testing.assert_allclose(out, get("fft").reference([array], given)[0], atol=1e-4)
