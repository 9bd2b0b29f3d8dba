from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Split, TensorSpec
from gpugoblin.errors import GraphError

ARRAY = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
I32 = TensorSpec("int32", (2, 3, 4))


@pytest.mark.parametrize(
    ("operator", "given", "expected"),
    [
        ("reshape", {"shape": (6, 4)}, ARRAY.reshape(6, 4)),
        ("permute", {"axes": (2, 0, 1)}, ARRAY.transpose(2, 0, 1)),
        ("slice", {"start": (0, 1, 0), "stop": (2, 3, 4), "step": (1, 1, 3)}, ARRAY[:, 1:, ::3]),
        ("broadcast", {"shape": (5, 2, 3, 4)}, np.broadcast_to(ARRAY, (5, 2, 3, 4))),
        ("concat", {"axis": 2}, np.concatenate([ARRAY], 2)),
    ],
)
def test_equals_numpy(operator: str, given: dict[str, Any], expected: np.ndarray[Any, Any]) -> None:
    declared = get(operator)
    (result,) = declared.reference([ARRAY], given)
    np.testing.assert_array_equal(result, expected)
    assert result.flags.c_contiguous
    assert not np.shares_memory(result, ARRAY)
    assert declared.infer((I32,), given) == (TensorSpec("int32", expected.shape),)


@pytest.mark.parametrize(
    ("operator", "given", "code"),
    [
        ("reshape", {"shape": (5, 5)}, "shapes_mismatch"),
        ("reshape", {"shape": (-1, 24)}, "attribute_invalid"),
        ("reshape", {"shape": (1,) * 8 + (24,)}, "attribute_invalid"),
        ("permute", {"axes": (0, 1)}, "attribute_invalid"),
        ("permute", {"axes": (0, 1, -1)}, "attribute_invalid"),
        ("slice", {"start": (0,), "stop": (1,), "step": (1,)}, "attribute_invalid"),
        ("slice", {"start": (0,) * 3, "stop": (2, 3, 5), "step": (1,) * 3}, "attribute_invalid"),
        ("slice", {"start": (2, 0, 0), "stop": (1, 3, 4), "step": (1,) * 3}, "attribute_invalid"),
        ("slice", {"start": (-1, 0, 0), "stop": (1, 3, 4), "step": (1,) * 3}, "attribute_invalid"),
        ("slice", {"start": (0,) * 3, "stop": (2, 3, 4), "step": (1, 1, 0)}, "attribute_invalid"),
        ("broadcast", {"shape": (3, 4)}, "shapes_mismatch"),
        ("broadcast", {"shape": (2, 6, 4)}, "shapes_mismatch"),
        ("broadcast", {"shape": (2, 3, -4)}, "attribute_invalid"),
        ("concat", {"axis": 3}, "attribute_invalid"),
    ],
)
def test_bad_attributes(operator: str, given: dict[str, Any], code: str) -> None:
    with pytest.raises(GraphError) as raised:
        get(operator).infer((I32,), given)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (TensorSpec("int32", (2, 4, 4)), "shapes_mismatch"),
        (TensorSpec("int32", (2, 3)), "shapes_mismatch"),
        (TensorSpec("int64", (2, 3, 4)), "dtype_unsupported"),
    ],
)
def test_parts_that_do_not_join(other: TensorSpec, code: str) -> None:
    with pytest.raises(GraphError) as raised:
        get("concat").infer((I32, other), {"axis": 0})
    assert raised.value.code == code


def test_a_reshape_can_be_cut_where_an_axis_survives() -> None:
    splits = get("reshape").splits((TensorSpec("int32", (5, 2, 3, 7)),), {"shape": (5, 1, 6, 7)})
    assert splits == (
        Split("i0", "parallel", (0,), 0),
        Split("i1", "whole", (1,), None),
        Split("i2", "whole", (2,), None),
        Split("i3", "parallel", (3,), 3),
        Split("o1", "whole", (None,), 1),
        Split("o2", "whole", (None,), 2),
    )


def test_only_untouched_axes_of_a_slice_can_be_cut() -> None:
    given = {"start": (0, 1, 0), "stop": (2, 3, 4), "step": (1, 1, 2)}
    kinds = [split.kind for split in get("slice").splits((I32,), given)]
    assert kinds == ["parallel", "whole", "whole"]


def test_errors_travel_with_the_elements() -> None:
    error = np.zeros((2, 3, 4))
    error[1, 2, 3] = 0.5
    for operator, given in (("permute", {"axes": (2, 0, 1)}), ("reshape", {"shape": (24,)})):
        propagate = get(operator).tolerance.propagate
        assert propagate is not None
        (carried,) = propagate([ARRAY], [error], [], given)
        assert carried is not None
        assert carried.reshape(-1)[-1] == 0.5
        assert propagate([ARRAY], [None], [], given) == (None,)
