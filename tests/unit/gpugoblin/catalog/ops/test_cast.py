from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.casting import cast_array, decoded
from gpugoblin.catalog.ops.cast import CAST
from gpugoblin.catalog.spec import DTYPES, TensorSpec


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_every_pair_keeps_small_numbers(source: str, target: str) -> None:
    numbers = np.array([[0, 1], [1, 0]])
    array = cast_array(numbers, source)
    assert array.dtype == DTYPES[source]
    (result,) = CAST.reference([array], {"dtype": target})
    assert result.dtype == DTYPES[target]
    np.testing.assert_array_equal(decoded(result).astype(int), numbers)
    spec = TensorSpec(source, (2, 2))
    assert CAST.infer((spec,), {"dtype": target}) == (TensorSpec(target, (2, 2)),)
    assert not np.shares_memory(result, array)


def test_errors_of_operands() -> None:
    propagate = CAST.tolerance.propagate
    assert propagate is not None
    array = np.array([2.5, 2.99999, -0.1], np.float32)
    to_int = {"dtype": "int32"}
    outputs = CAST.reference([array], to_int)
    assert propagate([array], [None], outputs, to_int) == (None,)
    (error,) = propagate([array], [np.full(3, 1e-3)], outputs, to_int)
    assert error is not None
    assert error.tolist() == [0.0, 1.0, 0.0]
    same = {"dtype": "float32"}
    (error,) = propagate([array], [np.full(3, 1e-3)], CAST.reference([array], same), same)
    assert error is not None
    assert error.tolist() == [1e-3] * 3
