from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpugoblin.catalog.ops.solving import SOLVE, TRIANGULAR_SOLVE, solve_lower
from gpugoblin.graph.numeric import agrees


def test_substitution_over_blocks() -> None:
    generator = np.random.default_rng(0)
    matrix = np.tril(generator.standard_normal((2, 130, 130))) / 20 + np.eye(130)
    right = generator.standard_normal((2, 130, 3))
    np.testing.assert_allclose(matrix @ solve_lower(matrix, right), right, atol=1e-9)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_only_the_triangle_is_read(lower: bool, transpose: bool, unit: bool) -> None:
    generator = np.random.default_rng(1)
    full = generator.standard_normal((4, 4)).astype(np.float32) + 3 * np.eye(4, dtype=np.float32)
    seen = np.tril(full) if lower else np.triu(full)
    if unit:
        np.fill_diagonal(seen, 1.0)
    right = generator.standard_normal((4, 2)).astype(np.float32)
    attributes = {"lower": lower, "transpose": transpose, "unit_diagonal": unit}
    (found,) = TRIANGULAR_SOLVE.reference([full, right], attributes)
    np.testing.assert_allclose((seen.T if transpose else seen) @ found, right, atol=1e-5)


def test_a_zero_on_the_diagonal_has_no_solution() -> None:
    matrix = np.array([[1, 0], [5, 0]], np.float32)
    right = np.ones((2, 1), np.float32)
    attributes = {"lower": True, "transpose": False, "unit_diagonal": False}
    assert np.isnan(TRIANGULAR_SOLVE.reference([matrix, right], attributes)[0]).all()


@given(some.integers(1, 12), some.integers(0, 3), some.floats(-3, 3), some.integers(0, 2**32))
def test_float32_lapack_is_within_the_bound(
    extent: int, columns: int, magnitude: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    matrix = (generator.standard_normal((2, extent, extent)) * 10.0**magnitude).astype(np.float32)
    right = generator.standard_normal((2, extent, columns)).astype(np.float32)
    propagate = SOLVE.tolerance.propagate
    assert propagate is not None
    for transpose in (False, True):
        outputs = SOLVE.reference([matrix, right], {"transpose": transpose})
        (bound,) = propagate([matrix, right], [None, None], outputs, {"transpose": transpose})
        seen = matrix.swapaxes(1, 2) if transpose else matrix
        assert agrees(np.linalg.solve(seen, right), outputs[0], bound).all()


def test_errors_of_operands_are_carried() -> None:
    generator = np.random.default_rng(3)
    matrix = (generator.standard_normal((4, 4)) + 4 * np.eye(4)).astype(np.float32)
    right = generator.standard_normal((4, 2)).astype(np.float32)
    propagate = SOLVE.tolerance.propagate
    assert propagate is not None
    (exact,) = SOLVE.reference([matrix, right], {"transpose": False})
    loose = np.full(matrix.shape, 1e-3), np.full(right.shape, 1e-3)
    (bound,) = propagate([matrix, right], loose, [exact], {"transpose": False})
    assert bound is not None
    for _ in range(20):
        others = [
            one + generator.uniform(-1e-3, 1e-3, one.shape).astype(np.float32)
            for one in (matrix, right)
        ]
        (moved,) = SOLVE.reference(others, {"transpose": False})
        assert (np.abs(moved - exact) <= bound).all()
    assert bound.max() < 0.1
