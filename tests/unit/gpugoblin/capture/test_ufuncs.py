"""NumPy's own functions on lazy arrays."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.capture.ufuncs import SCALAR_OF_UFUNC
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.graph.interpret import interpret

FLOATS = np.array([0.25, 0.5, 0.75, 1.0], np.float32)


@pytest.mark.parametrize("name", sorted(SCALAR_OF_UFUNC))
def test_the_lazy_result_is_numpys(name: str) -> None:
    ufunc = getattr(np, name)
    assert SCALAR_OF_UFUNC[name] in SCALARS or name == "floor_divide"
    whole = name.startswith("bitwise") or name.endswith("shift") or name == "invert"
    numbers = np.arange(1, 5) if whole else FLOATS
    arguments = [numbers] * ufunc.nin
    lazy = ufunc(*(gg.array(argument) for argument in arguments))
    assert isinstance(lazy, gg.Array)
    (result,) = interpret(lower([lazy.value]).graph, [numbers])
    np.testing.assert_allclose(result, ufunc(*arguments), rtol=1e-6, atol=1e-6)


def test_matmul() -> None:
    assert np.matmul(FLOATS, gg.array(FLOATS)).shape == ()
