from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpugoblin.catalog import matrix_building as building
from gpugoblin.catalog.spec import Array, Builder, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret


def run(write: Callable[[Builder, int], int], array: Array) -> Array:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", array.shape))
    return interpret(builder.build([write(builder, value)]), [array])[0]


VALUES = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
SQUARE = VALUES[:, :, :3].copy()


def test_triangles() -> None:
    for part, cut, step in (
        ("lower", np.tril, 0),
        ("strict_lower", np.tril, -1),
        ("upper", np.triu, 0),
        ("strict_upper", np.triu, 1),
    ):
        found = run(lambda b, v, part=part: building.triangle(b, v, part), VALUES)  # type: ignore[misc]
        np.testing.assert_array_equal(found, cut(VALUES, step))


def test_diagonals() -> None:
    spoiled = SQUARE.copy()
    spoiled[:, 0, 1] = np.nan
    line = np.diagonal(SQUARE, axis1=1, axis2=2)
    np.testing.assert_array_equal(run(building.diagonal, spoiled), line)
    found = run(building.diagonal_matrix, line.copy())
    np.testing.assert_array_equal(found, np.eye(3, dtype=np.float32) * line[:, None, :])
    np.testing.assert_array_equal(run(building.identity, spoiled)[1], np.eye(3))


def test_products_and_parts() -> None:
    np.testing.assert_array_equal(run(building.turned, VALUES), VALUES.swapaxes(1, 2))
    np.testing.assert_array_equal(
        run(building.symmetric, SQUARE), (SQUARE + SQUARE.swapaxes(1, 2)) / 2
    )
    found = run(lambda b, v: building.product(b, v, v, True), VALUES)
    np.testing.assert_allclose(found, VALUES.swapaxes(1, 2) @ VALUES, rtol=1e-5)
    found = run(
        lambda b, v: building.times(b, v, building.row_line(b, building.diagonal(b, v))), SQUARE
    )
    line = np.diagonal(SQUARE, axis1=1, axis2=2)
    np.testing.assert_allclose(found, SQUARE * line[:, None, :], rtol=1e-6)
