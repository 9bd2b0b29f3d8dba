"""Programs of linear algebra on grids of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.errors import PlanError
from gpugoblin.plan.algebra import needs_algebra, plan_algebra
from gpugoblin.plan.spec import Limits
from tests.helpers.algebra import computed, definite, program


def low_rank(build, x):  # type: ignore[no-untyped-def]
    """Singular values by random projections, one power step (Halko, Martinsson, Tropp, 2011)."""
    matrix, probe = x
    q = build.add_many("qr", [build.add("matmul", [matrix, probe])])[0]
    z = build.add_many("qr", [build.add("matmul", [matrix, q], transpose_a=True)])[0]
    q = build.add_many("qr", [build.add("matmul", [matrix, z])])[0]
    u, s, v = build.add_many("svd", [build.add("matmul", [q, matrix], transpose_a=True)])
    u = build.add("slice", [u], start=(0, 0), stop=(20, 8), step=(1, 1))
    return [build.add("matmul", [q, u]), s, v]


def test_singular_vectors_of_a_tall_matrix() -> None:
    random = np.random.default_rng(0)
    exact = random.standard_normal((4000, 8)) @ random.standard_normal((8, 60))
    matrix = (exact + 1e-3 * random.standard_normal((4000, 60))).astype(np.float32)
    probe = random.standard_normal((60, 20)).astype(np.float32)
    graph = program([matrix.shape, probe.shape], low_rank)
    plan, (u, s, v) = computed(graph, [matrix, probe], 400_000)
    expected = np.linalg.svd(matrix.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(s[:8], expected[:8], rtol=1e-5)
    assert np.linalg.norm(u * s[:8] @ v[:8] - matrix) < 1.01 * np.linalg.norm(expected[8:])
    assert plan.summary().tile[1] == 60


def test_sums_of_many_blocks_and_elementwise_steps() -> None:
    """A Gram matrix of many rows, shifted, and its factor; each result is kept, too."""

    def write(build, x):  # type: ignore[no-untyped-def]
        gram = build.add("matmul", [x[0], x[0]], transpose_a=True)
        from gpugoblin.catalog.formula_build import call_formula

        shifted = build.add("formula", [gram, x[1]], tree=call_formula("add"))
        factor = build.add("cholesky", [shifted])
        return [gram, factor, build.add("permute", [factor], axes=(1, 0))]

    random = np.random.default_rng(0)
    rows = random.standard_normal((5000, 70)).astype(np.float32)
    shift = np.eye(70, dtype=np.float32)
    graph = program([rows.shape, shift.shape], write)
    plan, (gram, factor, turned) = computed(graph, [rows, shift], 100_000)
    expected = rows.T.astype(np.float64) @ rows
    np.testing.assert_allclose(gram, expected, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(factor, np.linalg.cholesky(expected + shift), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(turned, factor.T)
    assert plan.kind == "algebra"


def test_small_blocks_for_small_engines() -> None:
    graph = program([(200, 200)], lambda build, x: [build.add("cholesky", x)])
    tiles = [computed(graph, [definite(200)], limit)[0].tile[0] for limit in (200_000, 60_000)]
    assert tiles[0] > tiles[1]


def test_what_does_not_fit_says_so() -> None:
    wide = program([(50, 400)], lambda build, x: build.add_many("qr", x))
    with pytest.raises(PlanError) as caught:
        plan_algebra(wide, Limits(20_000))
    assert caught.value.code == "plan_does_not_fit"
    assert caught.value.fields["operator"] == "qr"


def test_other_graphs_are_left_alone() -> None:
    graph = program([(50, 40), (40, 30)], lambda build, x: [build.add("matmul", x)])
    assert plan_algebra(graph, Limits(1000)) is None
    assert not needs_algebra(graph, Limits(1000))
    batch = program([(9, 40, 40)], lambda build, x: [build.add("cholesky", x)])
    assert not needs_algebra(batch, Limits(1000))


def test_only_what_no_engine_holds_needs_it() -> None:
    graph = program([(64, 64)], lambda build, x: [build.add("cholesky", x)])
    assert needs_algebra(graph, Limits(30_000))
    assert needs_algebra(graph, Limits(10**9, slot_bytes=10_000))
    assert not needs_algebra(graph, Limits(10**7))
