from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu.normalizing import layer_norm
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array

EPSILON = np.array(1e-5, np.float32)


@pytest.mark.parametrize(
    ("shape", "axes", "rest"),
    [
        ((300, 700), (1,), ()),
        ((300, 700), (0,), ((700,),)),
        ((5, 60, 7, 80), (1, 3), ((60, 1, 80), (7, 80))),
        ((3, 100_000), (1,), ((1,), (100_000,))),
        ((2, 3), (0, 1), ((), ())),
        ((0, 3), (1,), ()),
    ],
)
def test_more_than_one_block(
    shape: tuple[int, ...], axes: tuple[int, ...], rest: tuple[tuple[int, ...], ...]
) -> None:
    random = np.random.default_rng(0)
    more: list[Array] = [random.standard_normal(one).astype(np.float32) for one in rest]
    more = [np.asarray(one, np.float32) for one in more]
    data = (random.standard_normal(shape) * 3 + 5).astype(np.float32)
    (expected,) = get("layer_norm").reference([data, EPSILON, *more], {"axes": axes})
    out = np.empty_like(data)
    threads = Pool(2)
    try:
        layer_norm([data, EPSILON, *more], [out], {"axes": axes}, Context(threads))
    finally:
        threads.close()
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
