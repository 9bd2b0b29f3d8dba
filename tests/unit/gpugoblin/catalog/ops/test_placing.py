from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError

SCALAR = TensorSpec("float32", ())


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def test_pad_is_numpys_pad_and_puts_values_between() -> None:
    data, value = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(9, np.float32)
    plain = {"low": (1, 0), "high": (0, 2), "between": (0, 0)}
    expected = np.pad(data, ((1, 0), (0, 2)), constant_values=9)
    np.testing.assert_array_equal(get("pad").reference([data, value], plain)[0], expected)
    between = {"low": (0, 0), "high": (0, 0), "between": (1, 2)}
    (result,) = get("pad").reference([data, value], between)
    assert result.shape == (3, 7)
    np.testing.assert_array_equal(result[::2, ::3], data)
    assert (result[1] == 9).all()


@pytest.mark.parametrize(
    ("operator", "specs", "attributes", "code"),
    [
        ("pad", (f32(2), f32(1)), {"low": (0,), "high": (0,), "between": (0,)}, "shapes_mismatch"),
        ("pad", (f32(2), SCALAR), {"low": (-1,), "high": (0,), "between": (0,)}, "attribute"),
        ("pad", (f32(2), SCALAR), {"low": (), "high": (0,), "between": (0,)}, "attribute"),
        ("flip", (f32(2),), {"axes": (1,)}, "attribute"),
        ("flip", (f32(2, 2),), {"axes": (1, 0)}, "attribute"),
        ("update_slice", (f32(3), f32(2)), {"start": (2,), "step": (1,)}, "shapes_mismatch"),
        ("update_slice", (f32(3), f32(1, 1)), {"start": (0,), "step": (1,)}, "shapes_mismatch"),
        ("update_slice", (f32(3), f32(1)), {"start": (0,), "step": (0,)}, "attribute"),
    ],
)
def test_what_does_not_fit_is_refused(
    operator: str,
    specs: tuple[TensorSpec, ...],
    attributes: dict[str, tuple[int, ...]],
    code: str,
) -> None:
    with pytest.raises(GraphError, match=code):
        get(operator).infer(specs, attributes)


def test_update_slice_leaves_its_operand_alone() -> None:
    data, update = np.zeros(5, np.float32), np.ones(2, np.float32)
    (result,) = get("update_slice").reference([data, update], {"start": (1,), "step": (3,)})
    assert result.tolist() == [0, 1, 0, 0, 1]
    assert not data.any()
