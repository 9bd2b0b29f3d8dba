from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from gpugoblin.catalog.ops.determinants import DET, SLOGDET
from gpugoblin.catalog.spec import Array, Operator
from gpugoblin.graph.numeric import agrees


def bounds(operator: Operator, matrix: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    propagate = operator.tolerance.propagate
    assert propagate is not None
    outputs = operator.reference([matrix], {})
    return outputs, tuple(np.asarray(one) for one in propagate([matrix], [None], outputs, {}))


@given(some.integers(1, 8), some.floats(-3, 3), some.booleans(), some.integers(0, 2**32))
def test_float32_lapack_is_within_the_bound(
    extent: int, magnitude: float, whole: bool, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((3, extent, extent)) * 10.0**magnitude
    matrix = (np.rint(matrix) if whole else matrix).astype(np.float32)
    (exact,), (bound,) = bounds(DET, matrix)
    assert agrees(np.linalg.det(matrix), exact, bound).all()
    outputs, allowed = bounds(SLOGDET, matrix)
    for one, reference, bound in zip(np.linalg.slogdet(matrix), outputs, allowed, strict=True):
        assert agrees(np.asarray(one), reference, bound).all()


def test_equal_pivots_leave_nothing_open() -> None:
    matrix = np.array([[1, 2, 3], [1, -1, 2], [-1, 4, 1]], np.float32)
    (value,), (bound,) = bounds(DET, matrix)
    assert value == np.linalg.det(matrix.astype(np.float64)).astype(np.float32)
    assert bound < 1e-2
    (sign, _), (of_sign, of_size) = bounds(SLOGDET, matrix)
    assert sign == np.sign(value)
    assert of_sign < 1e-5
    assert of_size < 1e-2


def test_a_singular_matrix() -> None:
    matrix = np.ones((2, 2), np.float32)
    (value,), (bound,) = bounds(DET, matrix)
    assert value == 0
    assert bound < 1e-4
    (sign, size), (of_sign, _) = bounds(SLOGDET, matrix)
    assert (sign, size) == (0, -np.inf)
    assert np.isinf(of_sign)


def test_no_rows() -> None:
    empty = np.zeros((0, 0), np.float32)
    assert DET.reference([empty], {})[0] == 1
    sign, size = SLOGDET.reference([empty], {})
    assert (sign, size) == (1, 0)
