from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError


def test_it_is_numpys() -> None:
    generator = np.random.default_rng(0)
    data = generator.standard_normal((2, 4, 3)).astype(np.float32)
    for axis, shape in enumerate(((5, 4, 3), (2, 5, 3), (2, 4, 5))):
        places = generator.integers(0, data.shape[axis], shape)
        (found,) = get("take_along").reference([data, places], {"axis": axis})
        np.testing.assert_array_equal(found, np.take_along_axis(data, places, axis))


def test_a_wrong_index_is_an_error_and_never_another_rows() -> None:
    with pytest.raises(GraphError, match="index_out_of_range"):
        get("take_along").reference(
            [np.ones((2, 2), np.float32), np.array([[2], [0]])], {"axis": 1}
        )


def test_axes_must_agree() -> None:
    specs = [TensorSpec("float32", (2, 3)), TensorSpec("int64", (1, 3))]
    with pytest.raises(GraphError, match="must agree"):
        get("take_along").infer(specs, {"axis": 1})
