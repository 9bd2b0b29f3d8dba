from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.chance import DRAW_ELEMENTS, random
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get


def test_more_than_one_block() -> None:
    key = np.array([5, 6])
    given = {"function": "normal", "shape": (2 * DRAW_ELEMENTS + 3,)}
    out = np.empty(2 * DRAW_ELEMENTS + 3, np.float32)
    threads = Pool(2)
    try:
        random([key], [out], given, Context(threads))
    finally:
        threads.close()
    np.testing.assert_array_equal(out, get("random").reference([key], given)[0])
