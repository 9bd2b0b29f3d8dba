from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.reduce import REDUCE
from gpugoblin.catalog.spec import Array, Attributes, Split, TensorSpec
from gpugoblin.errors import GraphError


def reduce(array: Array, function: str, *axes: int, keepdims: bool = False) -> Array:
    given: Attributes = {"axes": axes, "function": function, "keepdims": keepdims}
    return REDUCE.reference([array], given)[0]


@pytest.mark.parametrize("function", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_equals_numpy(function: str, keepdims: bool) -> None:
    array = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    plain = getattr(np, function)(array.astype(float), axis=(0, 2), keepdims=keepdims)
    result = reduce(array, function, 0, 2, keepdims=keepdims)
    np.testing.assert_allclose(result, plain, rtol=1e-6)
    assert result.dtype == np.float32


def test_bools_and_integers() -> None:
    truth = np.array([[True, False], [False, False]])
    assert reduce(truth, "any", 1).tolist() == [True, False]
    assert reduce(truth, "all", 0).tolist() == [False, False]
    big = np.array([2**31 - 1, 1], np.int32)
    assert reduce(big, "sum", 0).tolist() == -(2**31)
    assert reduce(big, "sum", 0).dtype == np.int32
    assert reduce(np.array([2**40, 2**40]), "prod", 0).tolist() == 0


def test_nan_and_nothing() -> None:
    array = np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)
    for function in ("sum", "max", "min", "mean", "prod"):
        assert np.isnan(reduce(array, function, 1)).tolist() == [True, False]
    empty = np.zeros((2, 0), np.float32)
    assert reduce(empty, "sum", 1).tolist() == [0.0, 0.0]
    assert reduce(empty, "prod", 1).tolist() == [1.0, 1.0]
    assert np.isnan(reduce(empty, "mean", 1)).all()
    assert reduce(np.zeros((2, 0), bool), "all", 1).tolist() == [True, True]
    np.testing.assert_array_equal(reduce(array, "sum"), array)


@pytest.mark.parametrize(
    ("dtype", "shape", "axes", "function", "code"),
    [
        ("float32", (2, 0), (1,), "max", "empty_reduction"),
        ("int32", (2, 3), (1,), "mean", "dtype_unsupported"),
        ("bool", (2, 3), (1,), "sum", "dtype_unsupported"),
        ("float32", (2, 3), (1,), "any", "dtype_unsupported"),
        ("float32", (2, 3), (1, 0), "sum", "attribute_invalid"),
        ("float32", (2, 3), (0, 0), "sum", "attribute_invalid"),
        ("float32", (2, 3), (2,), "sum", "attribute_invalid"),
        ("float32", (2, 3), (-1,), "sum", "attribute_invalid"),
    ],
)
def test_bad_reductions(
    dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], function: str, code: str
) -> None:
    with pytest.raises(GraphError) as raised:
        REDUCE.infer(
            (TensorSpec(dtype, shape),), {"axes": axes, "function": function, "keepdims": False}
        )
    assert raised.value.code == code


def test_index_formula() -> None:
    spec = (TensorSpec("float32", (2, 3, 4)),)
    given: Attributes = {"axes": (1,), "function": "sum", "keepdims": False}
    assert REDUCE.splits(spec, given) == (
        Split("i0", "parallel", (0,), 0),
        Split("i1", "sum", (1,), None, combine="add"),
        Split("i2", "parallel", (2,), 1),
    )
    kept = REDUCE.splits(spec, {**given, "function": "mean", "keepdims": True})
    assert kept[1] == Split("i1", "whole", (1,), None)
    assert kept[2].output == 2
