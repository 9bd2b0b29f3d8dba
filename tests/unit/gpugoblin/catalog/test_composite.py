from __future__ import annotations

import numpy as np

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec


def test_nothing_is_rounded_on_the_way() -> None:
    softmax = get("softmax")
    array = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    (result,) = softmax.reference([array], {"axis": 1})
    powers = np.exp(array.astype(np.float64))
    exact = powers / powers.sum(1, keepdims=True)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, exact.astype(np.float32))
    (wide,) = softmax.reference([array.astype(np.float64)], {"axis": 1})
    np.testing.assert_allclose(wide, exact, rtol=1e-14)


def test_bounds_come_from_the_decomposition() -> None:
    softmax = get("softmax")
    propagate = softmax.tolerance.propagate
    assert propagate is not None
    array = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    outputs = softmax.reference([array], {"axis": 1})
    (own,) = propagate([array], [None], outputs, {"axis": 1})
    (more,) = propagate([array], [np.full((3, 50), 1e-3)], outputs, {"axis": 1})
    assert own is not None
    assert more is not None
    assert (own < 1e-4 * outputs[0]).all()
    assert (more > own).all()
    assert softmax.cost(*_specs(), {"axis": 1}).flops > 150


def _specs() -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    return (TensorSpec("float32", (3, 50)),), (TensorSpec("float32", (3, 50)),)
