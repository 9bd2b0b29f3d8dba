"""Factorizations and solutions with triangles, by blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.algebra import computed, definite, program

CHOLESKY = program([(120, 120)], lambda build, x: [build.add("cholesky", x)])


def test_cholesky() -> None:
    matrix = definite(120)
    plan, (found,) = computed(CHOLESKY, [matrix], 60_000)
    assert plan.count > 50
    np.testing.assert_allclose(found, np.linalg.cholesky(matrix.astype(np.float64)), atol=1e-6)
    assert not np.triu(found, 1).any()


def test_the_symmetric_part_is_meant() -> None:
    matrix = definite(120)
    skewed = matrix + np.triu(np.full_like(matrix, 0.5), 1) - np.tril(np.full_like(matrix, 0.5), -1)
    _, (found,) = computed(CHOLESKY, [skewed], 60_000)
    np.testing.assert_allclose(found, np.linalg.cholesky(matrix.astype(np.float64)), atol=1e-5)


def test_without_a_factor_all_is_nan() -> None:
    """As the operator says, and though only the last block shows it."""
    matrix = definite(120)
    matrix[110, 110] = -5
    _, (found,) = computed(CHOLESKY, [matrix], 60_000)
    assert np.isnan(found).all()


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("unit_diagonal", [True, False])
def test_triangular_solve(lower: bool, transpose: bool, unit_diagonal: bool) -> None:
    graph = program(
        [(100, 100), (100, 30)],
        lambda build, x: [
            build.add(
                "triangular_solve", x, lower=lower, transpose=transpose, unit_diagonal=unit_diagonal
            )
        ],
    )
    factor = np.linalg.cholesky(definite(100)).astype(np.float32) / 4
    triangle = factor if lower else np.ascontiguousarray(factor.T)
    right = np.random.default_rng(1).standard_normal((100, 30)).astype(np.float32)
    plan, (found,) = computed(graph, [triangle, right], 40_000)
    assert plan.count > 20
    whole = triangle.astype(np.float64)
    if unit_diagonal:
        np.fill_diagonal(whole, 1.0)
    expected = np.linalg.solve(whole.T if transpose else whole, right)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_what_lies_in_the_other_triangle_is_not_read() -> None:
    graph = program([(90, 90), (90, 9)], lambda b, x: [b.add("triangular_solve", x, lower=True)])
    triangle = np.linalg.cholesky(definite(90)).astype(np.float32)
    dirty = triangle + np.triu(np.full_like(triangle, 7), 1)
    right = np.ones((90, 9), np.float32)
    _, (found,) = computed(graph, [dirty, right], 40_000)
    np.testing.assert_allclose(triangle @ found, right, atol=1e-4)


def test_a_large_system_by_both() -> None:
    """A X = B for a definite A, by its factor: results of one blocked node go into the next."""

    def write(build, x):  # type: ignore[no-untyped-def]
        factor = build.add("cholesky", [x[0]])
        half = build.add("triangular_solve", [factor, x[1]], lower=True)
        return [build.add("triangular_solve", [factor, half], lower=True, transpose=True)]

    matrix = definite(100)
    right = np.random.default_rng(2).standard_normal((100, 20)).astype(np.float32)
    _, (found,) = computed(program([(100, 100), (100, 20)], write), [matrix, right], 60_000)
    np.testing.assert_allclose(matrix @ found, right, atol=1e-4)


def test_nearly_all_work_is_checked_as_products() -> None:
    """At real sizes: the lab repeats the small factorizations alone."""
    from gpugoblin.plan.algebra import plan_algebra
    from gpugoblin.plan.spec import Limits

    graph = program([(8192, 8192)], lambda build, x: [build.add("cholesky", x)])
    plan = plan_algebra(graph, Limits(256 * 2**20))
    assert plan is not None
    summary = plan.summary()
    products = sum(task.flops for task in plan.tasks if task.verify == "product")
    assert products > 0.93 * summary.flops
    assert summary.verify_flops < 0.15 * summary.flops
