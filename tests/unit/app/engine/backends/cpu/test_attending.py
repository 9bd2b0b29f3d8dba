from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu import attending
from app.engine.backends.cpu.attending import attention
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array

SCALE = np.array(0.3, np.float32)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", ["none", "bool", "float32"])
def test_more_than_one_block(causal: bool, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "SCORE_ELEMENTS", 200)
    random = np.random.default_rng(0)
    inputs: list[Array] = [
        random.standard_normal(shape).astype(np.float32)
        for shape in ((2, 3, 17, 8), (2, 3, 29, 8), (2, 3, 29, 5))
    ]
    inputs.append(SCALE)
    if mask == "bool":
        inputs.append(random.random((3, 1, 29)) < 0.8)
    elif mask == "float32":
        inputs.append(random.standard_normal((17, 29)).astype(np.float32))
    (expected,) = get("attention").reference(inputs, {"causal": causal})
    out = np.empty_like(expected)
    threads = Pool(2)
    try:
        attention(inputs, [out], {"causal": causal}, Context(threads))
    finally:
        threads.close()
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
