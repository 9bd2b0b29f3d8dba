from __future__ import annotations

import math

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError


def test_large_numbers_do_not_overflow() -> None:
    array = np.array([1000.0, 999.0, -1000.0], np.float32)
    (soft,) = get("softmax").reference([array], {"axis": 0})
    np.testing.assert_allclose(soft, [1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0], rtol=1e-6)
    (logs,) = get("log_softmax").reference([array], {"axis": 0})
    np.testing.assert_allclose(logs[2], -2000 - math.log1p(math.exp(-1)), rtol=1e-6)


def test_gelu_and_silu() -> None:
    array = np.array([-1.0, 0.0, 2.0], np.float32)
    exact = [x * 0.5 * math.erfc(-x / math.sqrt(2)) for x in array.tolist()]
    (found,) = get("gelu").reference([array], {"approximation": "none"})
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    (near,) = get("gelu").reference([array], {"approximation": "tanh"})
    np.testing.assert_allclose(near, exact, atol=1e-3)
    (silu,) = get("silu").reference([array], {})
    np.testing.assert_allclose(silu, [x / (1 + math.exp(-x)) for x in array], rtol=1e-6)


def test_an_axis_is_needed() -> None:
    for axis, shape in ((0, ()), (1, (3,)), (-1, (3,))):
        with pytest.raises(GraphError):
            get("softmax").infer([TensorSpec("float32", shape)], {"axis": axis})
    with pytest.raises(GraphError, match="dtype_unsupported"):
        get("gelu").infer([TensorSpec("int32", (3,))], {"approximation": "none"})
