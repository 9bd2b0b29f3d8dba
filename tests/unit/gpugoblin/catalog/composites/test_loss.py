from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError

SCORES = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
GIVEN = {"axis": 1, "ignored": -100}


def test_cross_entropy() -> None:
    labels = np.array([0, 2, -100, 1])
    (found,) = get("cross_entropy").reference([SCORES, labels], GIVEN)
    powers = np.exp(SCORES.astype(np.float64))
    share = powers / powers.sum(1, keepdims=True)
    expected = -np.log(share[[0, 1, 3], [0, 2, 1]])
    np.testing.assert_allclose(found[[0, 1, 3]], expected, rtol=1e-6)
    assert found[2] == 0


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_a_wrong_label_is_an_error_and_no_label_of_another_row(wrong: int) -> None:
    with pytest.raises(GraphError, match="index_out_of_range"):
        get("cross_entropy").reference([SCORES, np.array([0, wrong, 1, 1])], GIVEN)


def test_mse() -> None:
    (found,) = get("mse").reference([SCORES, SCORES + np.float32(2)], {})
    np.testing.assert_allclose(found, 4, rtol=1e-6)
    with pytest.raises(GraphError, match="mse cannot combine"):
        get("mse").infer([TensorSpec("float32", (3,)), TensorSpec("float32", (1,))], {})
    with pytest.raises(GraphError, match="labels for all axes but 1"):
        get("cross_entropy").infer(
            [TensorSpec("float32", (4, 3)), TensorSpec("int32", (3,))], GIVEN
        )
