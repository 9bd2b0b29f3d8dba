from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError


def test_sort_is_stable_and_has_nan_last() -> None:
    array = np.array([3, np.nan, 1, 3, 1], np.float32)
    values, indices = get("sort").reference([array], {"axis": 0, "descending": False})
    np.testing.assert_array_equal(values, [1, 1, 3, 3, np.nan])
    assert indices.tolist() == [2, 4, 0, 3, 1]
    values, indices = get("sort").reference([array], {"axis": 0, "descending": True})
    np.testing.assert_array_equal(values, [np.nan, 3, 3, 1, 1])
    assert indices.tolist() == [1, 0, 3, 2, 4]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_histogram_counts_as_numpy(dtype: str) -> None:
    array = np.random.default_rng(0).integers(-6, 7, 200).astype(dtype)
    edges = np.array([-4, -1, 0, 3, 5], dtype)
    (found,) = get("histogram").reference([array, edges[::-1]], {})
    np.testing.assert_array_equal(found, np.histogram(array, edges)[0])
    assert found.dtype == np.int64


def test_a_histogram_needs_two_edges() -> None:
    for shape in ((1,), (2, 2)):
        with pytest.raises(GraphError, match="two or more edges"):
            get("histogram").infer([TensorSpec("float32", (3,)), TensorSpec("float32", shape)], {})
