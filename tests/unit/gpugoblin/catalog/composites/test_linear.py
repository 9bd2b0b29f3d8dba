from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError

MATRICES = np.random.default_rng(0).standard_normal((6, 4, 4)).astype(np.float32)


def test_a_singular_matrix_has_no_inverse() -> None:
    assert np.isnan(get("inverse").reference([np.ones((2, 2), np.float32)], {})[0]).all()


def test_systems() -> None:
    right = np.random.default_rng(1).standard_normal((6, 4, 2)).astype(np.float32)
    both, order = get("lu").reference([MATRICES], {})
    (found,) = get("lu_solve").reference([both, order, right], {})
    np.testing.assert_allclose(MATRICES @ found, right, atol=1e-4)
    (inverse,) = get("inverse").reference([MATRICES], {})
    np.testing.assert_allclose(MATRICES @ inverse, np.broadcast_to(np.eye(4), (6, 4, 4)), atol=1e-4)


@pytest.mark.parametrize("columns", [2, 4, 6])
def test_least_squares_are_numpys(columns: int) -> None:
    generator = np.random.default_rng(2)
    matrix = generator.standard_normal((4, columns)).astype(np.float32)
    right = generator.standard_normal((4, 2)).astype(np.float32)
    (found,) = get("lstsq").reference([matrix, right], {})
    expected = np.linalg.lstsq(matrix.astype(np.float64), right, rcond=None)[0]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("order", "name"), [("2", 2), ("1", 1), ("inf", np.inf), ("-inf", -np.inf)]
)
def test_norms_are_numpys(order: str, name: float) -> None:
    array = MATRICES.reshape(6, 16)
    attributes = {"axes": (1,), "order": order, "keepdims": False}
    (found,) = get("vector_norm").reference([array], attributes)
    np.testing.assert_allclose(found, np.linalg.norm(array, name, axis=1), rtol=1e-6)


def test_what_does_not_fit() -> None:
    matrix, line = TensorSpec("float32", (3, 3)), TensorSpec("int64", (2,))
    with pytest.raises(GraphError, match="order of rows"):
        get("lu_solve").infer([matrix, line, matrix], {})
    with pytest.raises(GraphError, match="right sides"):
        get("lstsq").infer([matrix, TensorSpec("float32", (2, 3))], {})
    attributes = {"axes": (1, 0), "order": "2", "keepdims": False}
    with pytest.raises(GraphError, match="rising axes"):
        get("vector_norm").infer([matrix], attributes)
