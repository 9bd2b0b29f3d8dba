from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.gather import GATHER, require_indices
from gpugoblin.catalog.spec import Split, TensorSpec
from gpugoblin.errors import GraphError

DATA = np.arange(24, dtype=np.float32).reshape(2, 4, 3)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_equals_take(axis: int, dtype: str) -> None:
    indices = np.array([[1, 0], [1, 1]], dtype)
    (result,) = GATHER.reference([DATA, indices], {"axis": axis})
    np.testing.assert_array_equal(result, np.take(DATA, indices, axis=axis))
    specs = (TensorSpec("float32", DATA.shape), TensorSpec(dtype, (2, 2)))
    assert GATHER.infer(specs, {"axis": axis}) == (TensorSpec("float32", result.shape),)


@pytest.mark.parametrize("index", [-1, 4, -(2**31)])
def test_an_index_out_of_range_is_an_error(index: int) -> None:
    with pytest.raises(GraphError) as raised:
        GATHER.reference([DATA, np.array([0, index])], {"axis": 1})
    assert raised.value.code == "index_out_of_range"
    assert raised.value.fields == {"operator": "gather", "index": index, "axis": 1, "extent": 4}


def test_nothing_may_be_taken_from_an_empty_axis() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert GATHER.reference([empty, np.zeros(0, np.int32)], {"axis": 0})[0].shape == (0, 3)
    with pytest.raises(GraphError, match="index_out_of_range"):
        GATHER.reference([empty, np.zeros(1, np.int32)], {"axis": 0})
    require_indices(np.zeros(0, np.int32), 0, 0)


@pytest.mark.parametrize(
    ("data", "indices", "axis", "code"),
    [
        ((3,), TensorSpec("float32", (2,)), 0, "dtype_unsupported"),
        ((3,), TensorSpec("int32", (2,)), 1, "attribute_invalid"),
        ((), TensorSpec("int32", (2,)), 0, "shapes_mismatch"),
        ((1,) * 5, TensorSpec("int32", (1,) * 5), 0, "shapes_mismatch"),
    ],
)
def test_bad_operands(data: tuple[int, ...], indices: TensorSpec, axis: int, code: str) -> None:
    with pytest.raises(GraphError) as raised:
        GATHER.infer((TensorSpec("float32", data), indices), {"axis": axis})
    assert raised.value.code == code


def test_index_formula() -> None:
    specs = (TensorSpec("float32", (2, 4, 3)), TensorSpec("int32", (5, 6)))
    assert GATHER.splits(specs, {"axis": 1}) == (
        Split("d0", "parallel", (0, None), 0),
        Split("d1", "whole", (1, None), None),
        Split("d2", "parallel", (2, None), 3),
        Split("i0", "parallel", (None, 0), 1),
        Split("i1", "parallel", (None, 1), 2),
    )


def test_an_open_index_reaches_over_the_whole_axis() -> None:
    data, indices = np.array([1.0, 5.0, 2.0], np.float32), np.array([0, 2], np.int32)
    outputs = GATHER.reference([data, indices], {"axis": 0})
    propagate = GATHER.tolerance.propagate
    assert propagate is not None
    (error,) = propagate([data, indices], [None, np.array([1.0, 0.0])], outputs, {"axis": 0})
    assert error is not None
    assert error.tolist() == [4.0, 0.0]
    (error,) = propagate([data, indices], [np.full(3, 0.5), None], outputs, {"axis": 0})
    assert error is not None
    assert error.tolist() == [0.5, 0.5]
