from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu.activating import gelu
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array


def run(values: Array, approximation: str) -> Array:
    out = np.empty_like(values)
    threads = Pool(2)
    try:
        with np.errstate(all="ignore"):
            gelu([values], [out], {"approximation": approximation}, Context(threads))
    finally:
        threads.close()
    return out


@pytest.mark.parametrize("approximation", ["none", "tanh"])
def test_within_the_bound_of_the_catalog_everywhere(approximation: str) -> None:
    near = np.linspace(-8, 8, 200_001).astype(np.float32)
    far = np.array([-1e30, -40, -6, 0.0, -0.0, 1e-30, 40, 1e30, np.inf, np.nan], np.float32)
    values = np.concatenate([near, far])
    operator, given = get("gelu"), {"approximation": approximation}
    exact = operator.reference([values.astype(np.float64)], given)
    assert operator.tolerance.propagate is not None
    with np.errstate(all="ignore"):
        (bound,) = operator.tolerance.propagate([values], [None], exact, given)
        gap = np.abs(run(values, approximation) - exact[0])
    assert bound is not None
    known = np.isfinite(exact[0])
    assert (gap[known] <= bound[known] + 2.0**-24 * np.abs(exact[0][known])).all()
    found = run(values, approximation)
    np.testing.assert_array_equal(np.isnan(found[~known]), np.isnan(exact[0][~known]))


def test_minus_infinity_and_scalars() -> None:
    assert np.isnan(run(np.array(-np.inf, np.float32), "none"))
    assert run(np.array(1.0, np.float32), "none") == pytest.approx(0.8413447)
