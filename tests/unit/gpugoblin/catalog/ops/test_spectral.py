from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpugoblin.catalog.ops.spectral import EIGH, SVD, signs
from gpugoblin.catalog.spec import Array, Operator
from gpugoblin.graph.numeric import agrees


def bounds(operator: Operator, matrix: Array, outputs: tuple[Array, ...]) -> tuple[Array, ...]:
    propagate = operator.tolerance.propagate
    assert propagate is not None
    return tuple(np.asarray(one) for one in propagate([matrix], [None], outputs, {}))


def test_the_first_large_component_is_positive() -> None:
    vectors = np.array([[0.1, -0.7, 0.0], [-0.5, 0.7, 0.0], [0.8, 0.1, -1.0]])
    assert signs(vectors).tolist() == [[-1.0, -1.0, -1.0]]
    assert signs(np.zeros((0, 2))).tolist() == [[1.0, 1.0]]


def test_equal_largest_components_have_one_sign() -> None:
    (vectors, values) = EIGH.reference([np.array([[2, 1], [1, 2]], np.float32)], {})
    root = np.sqrt(np.float32(0.5))
    np.testing.assert_allclose(vectors, [[root, root], [-root, root]], rtol=1e-6)
    np.testing.assert_allclose(values, [1, 3], rtol=1e-6)
    of_vectors, _ = bounds(EIGH, np.array([[2, 1], [1, 2]], np.float32), (vectors, values))
    assert of_vectors.max() < 1e-3


@given(some.integers(1, 8), some.integers(0, 2**32))
def test_eigh_in_float32_is_within_the_bound(extent: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((extent, extent)).astype(np.float32)
    outputs = EIGH.reference([matrix], {})
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    found = (vectors * signs(vectors).astype(np.float32), values)
    for one, exact, bound in zip(found, outputs, bounds(EIGH, matrix, outputs), strict=True):
        assert agrees(one, exact, bound).all()
    half = (matrix + matrix.T) / 2
    np.testing.assert_allclose(half @ outputs[0], outputs[0] * outputs[1], atol=1e-5)


@given(some.integers(1, 7), some.integers(1, 7), some.integers(0, 2**32))
def test_svd_in_float32_is_within_the_bound(rows: int, columns: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((rows, columns)).astype(np.float32)
    outputs = SVD.reference([matrix], {})
    u, values, vh = np.linalg.svd(matrix, full_matrices=False)
    sign = signs(u).astype(np.float32)
    found = (u * sign, values, vh * sign.T)
    for one, exact, bound in zip(found, outputs, bounds(SVD, matrix, outputs), strict=True):
        assert agrees(one, exact, bound).all()
    np.testing.assert_allclose((outputs[0] * outputs[1]) @ outputs[2], matrix, atol=1e-5)


@pytest.mark.parametrize("operator", [EIGH, SVD], ids=["eigh", "svd"])
def test_equal_values_leave_vectors_open_and_values_not(operator: Operator) -> None:
    matrix = np.diag([1.0, 1.0, 3.0]).astype(np.float32)
    outputs = operator.reference([matrix], {})
    found = bounds(operator, matrix, outputs)
    assert np.isinf(found[0]).any()
    assert found[1].max() < 1e-3
    assert np.isfinite(found[0]).any()
