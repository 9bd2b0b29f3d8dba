from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret, interpret_wide


def exponential(matrices: Array) -> Array:
    return get("matrix_exp").reference([matrices], {})[0]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 8.0, 30.0])
def test_symmetric_matrices_by_their_eigenvalues(scale: float) -> None:
    root = np.random.default_rng(0).standard_normal((2, 4, 4)) * scale / 4
    matrices = -root @ root.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(matrices)
    expected = (vectors * np.exp(values)[:, None, :]) @ vectors.swapaxes(1, 2)
    np.testing.assert_allclose(exponential(matrices), expected, atol=1e-13)


def test_a_turn_and_a_step() -> None:
    angle = 20.0
    turn = np.array([[0, -angle], [angle, 0]])
    expected = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    np.testing.assert_allclose(exponential(turn), expected, atol=1e-12)
    np.testing.assert_allclose(exponential(np.array([[0.0, 7.0], [0.0, 0.0]])), [[1, 7], [0, 1]])


def test_each_matrix_of_a_batch_has_its_own_scale() -> None:
    batch = np.stack([np.diag([1.0, 2.0]), np.diag([60.0, -60.0]), np.zeros((2, 2))])
    found = np.diagonal(exponential(batch), axis1=1, axis2=2)
    np.testing.assert_allclose(found, np.exp([[1, 2], [60, -60], [0, 0]]), rtol=1e-12)


def test_the_gradient_at_zero_is_that_of_the_identity() -> None:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (2, 2)))
    joint = gradient(builder.build([builder.add("matrix_exp", [value])]), [0], seeded=True)
    seed = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = interpret_wide(joint, [np.zeros((2, 2)), seed])[1]
    np.testing.assert_allclose(found, seed, atol=1e-12)
    narrow = interpret(joint, [np.eye(2, dtype=np.float32) * 60, seed.astype(np.float32)])[1]
    assert np.isfinite(narrow).all()
