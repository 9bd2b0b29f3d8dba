from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpugoblin.catalog.ops.grouped import (
    GROUPED_MATMUL,
    GROUPED_OUTER,
    group_ranges,
    wrong_sizes,
)
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.numeric import agrees

PLAIN = {"transpose": False}


def loops(rows: Array, weights: Array, sizes: Array) -> Array:
    """Row by row in float32."""
    found = np.zeros((rows.shape[0], weights.shape[2]), np.float32)
    group_of = np.repeat(np.arange(sizes.size), sizes)
    for place, group in enumerate(group_of):
        found[place] = rows[place] @ weights[group]
    return found


@given(
    some.lists(some.integers(0, 4), max_size=4),
    some.integers(0, 3),
    some.integers(0, 5),
    some.floats(-3, 3),
    some.integers(0, 2**32),
)
def test_a_row_meets_the_matrix_of_its_group(
    counts: list[int], extra: int, inner: int, magnitude: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    sizes = np.array(counts, np.int64)
    rows = (generator.standard_normal((sum(counts) + extra, inner)) * 10**magnitude).astype(
        np.float32
    )
    weights = generator.standard_normal((sizes.size, inner, 3)).astype(np.float32)
    inputs = [rows, weights, sizes]
    propagate = GROUPED_MATMUL.tolerance.propagate
    assert propagate is not None
    outputs = GROUPED_MATMUL.reference(inputs, PLAIN)
    (bound,) = propagate(inputs, [None] * 3, outputs, PLAIN)
    assert agrees(loops(*inputs), outputs[0], bound).all()
    assert not outputs[0][sum(counts) :].any()
    turned = [rows, np.ascontiguousarray(weights.swapaxes(1, 2)), sizes]
    np.testing.assert_array_equal(
        GROUPED_MATMUL.reference(turned, {"transpose": True})[0], outputs[0]
    )
    loose = [np.full(rows.shape, 1e-2), np.full(weights.shape, 1e-2), None]
    (bound,) = propagate(inputs, loose, outputs, PLAIN)
    moved = [one + np.float32(0.009) for one in (rows, weights)]
    assert agrees(GROUPED_MATMUL.reference([*moved, sizes], PLAIN)[0], outputs[0], bound).all()


def test_the_outer_product_of_each_group() -> None:
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((6, n)).astype(np.float32) for n in (2, 3))
    (found,) = GROUPED_OUTER.reference([left, right, np.array([2, 0, 3])], {})
    np.testing.assert_allclose(found[0], left[:2].T @ right[:2], rtol=1e-5)
    assert not found[1].any()
    np.testing.assert_allclose(found[2], left[2:5].T @ right[2:5], rtol=1e-5)


def test_sizes() -> None:
    assert list(group_ranges(np.array([2, 0, 1]))) == [(0, 0, 2), (2, 2, 3)]
    assert wrong_sizes(np.array([2, 1]), 3) is None
    assert wrong_sizes(np.array([2, -1]), 3) == -1
    assert wrong_sizes(np.array([2**31 - 1, 2**31 - 1], np.int32), 3) == 2**32 - 2


@pytest.mark.parametrize("sizes", [[3, -1], [2, 2], [4]])
def test_wrong_sizes_are_an_error(sizes: list[int]) -> None:
    rows = np.ones((3, 2), np.float32)
    weights = np.ones((len(sizes), 2, 2), np.float32)
    with pytest.raises(GraphError, match="index_out_of_range"):
        GROUPED_MATMUL.reference([rows, weights, np.array(sizes)], PLAIN)
    with pytest.raises(GraphError, match="index_out_of_range"):
        GROUPED_OUTER.reference([rows, rows, np.array(sizes)], {})


def test_open_sizes_admit_anything() -> None:
    inputs = [np.ones((3, 2), np.float32), np.ones((1, 2, 2), np.float32), np.array([3])]
    propagate = GROUPED_MATMUL.tolerance.propagate
    assert propagate is not None
    outputs = GROUPED_MATMUL.reference(inputs, PLAIN)
    (error,) = propagate(inputs, [None, None, np.ones(1)], outputs, PLAIN)
    assert error is not None
    assert np.isinf(error).all()


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (((3, 2), (1, 3, 2), (1,)), "one matrix a group"),
        (((3, 2), (2, 2, 2), (1,)), "one matrix a group"),
        (((3, 2), (2, 2), (2,)), "ranks 2, 3, 1"),
    ],
)
def test_what_does_not_fit(shapes: tuple[tuple[int, ...], ...], reason: str) -> None:
    rows, weights, sizes = shapes
    specs = [
        TensorSpec("float32", rows),
        TensorSpec("float32", weights),
        TensorSpec("int64", sizes),
    ]
    with pytest.raises(GraphError, match=reason):
        GROUPED_MATMUL.infer(specs, PLAIN)
