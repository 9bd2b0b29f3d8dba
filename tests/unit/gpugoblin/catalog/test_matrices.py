from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.matrices import backward_error, norms, smallest_singular
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.rounding import FLOAT32, FLOAT64
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError

PLAIN = {"transpose": False}


def test_a_bad_matrix_spoils_no_other() -> None:
    matrices = np.stack([np.eye(2), np.zeros((2, 2)), [[np.nan, 0], [0, 1]], 2 * np.eye(2)])
    right = np.ones((4, 2, 1), np.float32)
    (found,) = get("solve").reference([matrices.astype(np.float32), right], PLAIN)
    np.testing.assert_array_equal(found[:, 0, 0], [1.0, np.nan, np.nan, 0.5])
    right[0, 1] = np.inf
    (found,) = get("solve").reference([matrices.astype(np.float32), right], PLAIN)
    assert np.isnan(found[0]).all()
    assert get("lu").reference([matrices.astype(np.float32)], {})[1][2].tolist() == [0, 1]


def test_certain_nan_has_no_error_and_an_open_operand_any() -> None:
    propagate = get("inverse").tolerance.propagate
    assert propagate is not None
    matrices = np.stack([np.eye(2), np.full((2, 2), np.inf)]).astype(np.float32)
    outputs = get("inverse").reference([matrices], {})
    (error,) = propagate([matrices], [None], outputs, {})
    assert error is not None
    assert 0 < error[0].max() < 1e-3
    assert error[1].max() == 0
    (error,) = propagate([matrices], [np.full((2, 2, 2), np.inf)], outputs, {})
    assert error is not None
    assert np.isinf(error).all()


def test_norms_and_smallest_singular_values() -> None:
    matrices = np.array([[[3.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]], [[np.nan, 0], [0, 1]]])
    assert norms(matrices)[0, 0, 0] == 5.0
    assert smallest_singular(matrices)[:, 0, 0] == pytest.approx([3.0, 0.0, 0.0], rel=1e-14)
    loose = np.full(matrices.shape, 0.5)
    assert backward_error(matrices, loose, FLOAT32)[0, 0, 0] > 1.0
    own = [backward_error(matrices, 0 * loose, form)[0, 0, 0] for form in (FLOAT32, FLOAT64)]
    assert own == pytest.approx([16 * 2 * 5.0 * 2.0**-24, 16 * 2 * 5.0 * 2.0**-52], rel=1e-6)


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ([(3,), (3, 1)], "rank 2"),
        ([(2, 3, 3), (1, 3, 1)], "batch extents"),
        ([(3, 2), (3, 1)], "square"),
        ([(3, 3), (2, 1)], "3 rows"),
    ],
)
def test_shapes_that_do_not_fit(shapes: list[tuple[int, ...]], reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        get("solve").infer([TensorSpec("float32", shape) for shape in shapes], PLAIN)


def test_only_floats() -> None:
    with pytest.raises(GraphError, match="dtype_unsupported"):
        get("cholesky").infer([TensorSpec("int32", (2, 2))], {})
