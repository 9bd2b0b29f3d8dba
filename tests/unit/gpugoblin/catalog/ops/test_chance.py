from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.chance import RANDOM, draw
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError


def drawn(function: str, *shape: int, key: int = 1, stream: int = 2) -> Array:
    given = {"function": function, "shape": shape}
    return RANDOM.reference([np.array([key, stream], np.int64)], given)[0]


def test_uniform_numbers() -> None:
    found = drawn("uniform", 50_000)
    assert found.dtype == np.float32
    assert 0 <= found.min() < 0.001
    assert 0.999 < found.max() < 1
    assert abs(found.mean() - 0.5) < 0.01
    np.testing.assert_array_equal(found, (drawn("bits", 50_000).view(np.uint32) >> 8) * 2.0**-24)


def test_normal_numbers() -> None:
    found = drawn("normal", 100_001)
    assert abs(found.mean()) < 0.02
    assert abs(found.std() - 1) < 0.02
    assert abs((found**4).mean() - 3) < 0.2
    assert np.abs(found).max() < 6


@pytest.mark.parametrize("function", ["bits", "uniform", "normal"])
def test_parts_and_keys(function: str) -> None:
    whole = drawn(function, 41)
    key = np.array([1, 2])
    for start, stop in ((0, 5), (3, 8), (40, 41)):
        part = draw(key, function, start, stop).astype(whole.dtype)
        np.testing.assert_array_equal(part, whole[start:stop])
    assert (drawn(function, 9, key=3) != whole[:9]).any()
    assert (drawn(function, 9, stream=3) != whole[:9]).any()


def test_a_key_has_two_int64() -> None:
    for spec in (TensorSpec("int64", (3,)), TensorSpec("int32", (2,))):
        with pytest.raises(GraphError):
            RANDOM.infer([spec], {"function": "bits", "shape": (1,)})
