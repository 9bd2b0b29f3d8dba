from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.order import REDUCE_ARG, TOPK
from gpugoblin.catalog.spec import Array, Attributes, TensorSpec
from gpugoblin.errors import GraphError

NAN = np.nan


def arg(values: list[float], function: str) -> int:
    given: Attributes = {"axis": 0, "function": function, "keepdims": False}
    return int(REDUCE_ARG.reference([np.array(values, np.float32)], given)[0])


def top(array: Array, count: int, *, largest: bool = True, axis: int = 0) -> tuple[Array, ...]:
    return TOPK.reference([array], {"axis": axis, "k": count, "largest": largest})


@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ([1, 3, 2], 1, 0),
        ([2, 3, 3, 2], 1, 0),
        ([1, NAN, 5, NAN], 1, 1),
        ([0.0, -0.0], 0, 0),
        ([-np.inf, np.inf], 1, 0),
    ],
)
def test_the_first_extreme_element(values: list[float], largest: int, smallest: int) -> None:
    assert arg(values, "argmax") == largest
    assert arg(values, "argmin") == smallest


def test_topk_order_ties_and_nan() -> None:
    array = np.array([2.0, NAN, 5.0, 2.0, -np.inf, 5.0, NAN], np.float32)
    values, indices = top(array, 6)
    assert indices.tolist() == [1, 6, 2, 5, 0, 3]
    np.testing.assert_array_equal(values, array[indices])
    _, indices = top(array, 7, largest=False)
    assert indices.tolist() == [4, 0, 3, 2, 5, 1, 6]


def test_topk_equals_sorting_along_any_axis() -> None:
    array = np.random.default_rng(0).integers(-5, 5, (4, 6, 3))
    for axis in range(3):
        values, indices = top(array, 3, axis=axis)
        descending = np.flip(np.sort(array, axis=axis), axis=axis)
        np.testing.assert_array_equal(values, np.take(descending, range(3), axis=axis))
        np.testing.assert_array_equal(np.take_along_axis(array, indices, axis), values)
        assert indices.dtype == np.int64
        assert values.flags.c_contiguous


@pytest.mark.parametrize("count", [0, -1, 4])
def test_k_out_of_range(count: int) -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        TOPK.infer((TensorSpec("float32", (3,)),), {"axis": 0, "k": count, "largest": True})


def test_nothing_to_choose_from() -> None:
    with pytest.raises(GraphError, match="empty_reduction"):
        REDUCE_ARG.infer(
            (TensorSpec("float32", (3, 0)),), {"axis": 1, "function": "argmax", "keepdims": False}
        )
    with pytest.raises(GraphError, match="dtype_unsupported"):
        TOPK.infer((TensorSpec("bool", (3,)),), {"axis": 0, "k": 1, "largest": True})
    with pytest.raises(GraphError, match="shapes_mismatch"):
        TOPK.infer((TensorSpec("float32", ()),), {"axis": 0, "k": 1, "largest": True})


def test_open_places_of_topk_are_bounded_by_the_farthest() -> None:
    array = np.array([5.0, 1.0, 4.9, 3.0], np.float32)
    given = {"axis": 0, "k": 2, "largest": True}
    outputs = TOPK.reference([array], given)
    propagate = TOPK.tolerance.propagate
    assert propagate is not None
    assert propagate([array], [None], outputs, given) == (None, None)
    values, indices = propagate([array], [np.full(4, 0.1)], outputs, given)
    assert values is not None
    assert indices is not None
    assert values.tolist() == [0.1, 0.1]
    assert indices.tolist() == [2.0, 2.0]
