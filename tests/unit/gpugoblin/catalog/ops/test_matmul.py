from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.matmul import MATMUL
from gpugoblin.catalog.spec import Split, TensorSpec
from gpugoblin.errors import GraphError

PLAIN = {"transpose_a": False, "transpose_b": False}


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
def test_equals_numpy_with_and_without_transposes(turn_a: bool, turn_b: bool) -> None:
    generator = np.random.default_rng(0)
    a = generator.integers(-9, 9, (2, 4, 5) if not turn_a else (2, 5, 4))
    b = generator.integers(-9, 9, (2, 5, 3) if not turn_b else (2, 3, 5))
    given = {"transpose_a": turn_a, "transpose_b": turn_b}
    seen_a = a.transpose(0, 2, 1) if turn_a else a
    seen_b = b.transpose(0, 2, 1) if turn_b else b
    (result,) = MATMUL.reference([a, b], given)
    np.testing.assert_array_equal(result, np.einsum("bmk,bkn->bmn", seen_a, seen_b))
    specs = (TensorSpec("int64", a.shape), TensorSpec("int64", b.shape))
    assert MATMUL.infer(specs, given) == (TensorSpec("int64", (2, 4, 3)),)
    assert MATMUL.cost(specs, MATMUL.infer(specs, given), given).flops == 2 * 2 * 4 * 3 * 5


def test_the_reference_accumulates_in_float64() -> None:
    a = np.array([[1e8, 1.0, -1e8]], np.float32)
    b = np.ones((3, 1), np.float32)
    assert MATMUL.reference([a, b], PLAIN)[0].tolist() == [[1.0]]


def test_nothing_to_sum_is_zero() -> None:
    a, b = np.ones((2, 0), np.float32), np.ones((0, 3), np.float32)
    np.testing.assert_array_equal(MATMUL.reference([a, b], PLAIN)[0], np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        (f32(2, 3), f32(4, 2), "shapes_mismatch"),
        (f32(3), f32(3, 2), "shapes_mismatch"),
        (f32(2, 2, 3), f32(3, 2), "shapes_mismatch"),
        (f32(2, 2, 3), f32(1, 3, 2), "shapes_mismatch"),
        (f32(2, 3), TensorSpec("int32", (3, 2)), "dtype_unsupported"),
        (TensorSpec("bool", (2, 3)), TensorSpec("bool", (3, 2)), "dtype_unsupported"),
    ],
)
def test_operands_that_do_not_fit(a: TensorSpec, b: TensorSpec, code: str) -> None:
    with pytest.raises(GraphError) as raised:
        MATMUL.infer((a, b), PLAIN)
    assert raised.value.code == code


def test_index_formula() -> None:
    given = {"transpose_a": True, "transpose_b": False}
    assert MATMUL.splits((f32(7, 5, 4), f32(7, 5, 6)), given) == (
        Split("b0", "parallel", (0, 0), 0),
        Split("m", "parallel", (2, None), 1),
        Split("n", "parallel", (None, 2), 2),
        Split("k", "sum", (1, 1), None, combine="add"),
    )


def test_the_bound_scales_with_the_operands_and_keeps_zero_rows_tight() -> None:
    a = np.ones((2, 100), np.float32)
    a[1] = 0
    b = np.ones((100, 1), np.float32)
    absolute = MATMUL.tolerance.absolute
    assert absolute is not None
    bound = np.asarray(absolute([a, b], PLAIN))
    larger = np.asarray(absolute([a, b * 1000], PLAIN))
    np.testing.assert_allclose(larger[0], bound[0] * 1000)
    assert bound[0] < 1e-3
    assert bound[1] < 1e-30
