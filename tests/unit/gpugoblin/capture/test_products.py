"""Products: vectors, batches, dtypes (the numbers are compared in test_lower.py)."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError


def ones(*shape: int) -> gg.Array:
    return gg.array(np.ones(shape, np.float32))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((0, 4), (4, 0)), ((3, 0), (0, 2)),
        ((4,), (2, 4, 5)), ((2, 3, 4), (4,)),
    ],
)  # fmt: skip
def test_shapes_are_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    expected = np.empty(left, np.float32) @ np.empty(right, np.float32)
    assert (ones(*left) @ ones(*right)).shape == expected.shape


@pytest.mark.parametrize(
    ("left", "right"), [((3, 4), (3, 4)), ((4,), (3,)), ((2, 3, 4), (3, 4, 5)), ((), (3,))]
)
def test_shapes_that_do_not_fit(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    with pytest.raises(CaptureError, match="matmul of float32"):
        ones(*left) @ ones(*right)


def test_ndarrays_on_either_side() -> None:
    numbers = np.ones((4, 4), np.float32)
    assert (ones(4, 4) @ numbers).shape == (numbers @ ones(4, 4)).shape == (4, 4)
    assert gg.matmul(numbers, numbers).shape == (4, 4)
    assert gg.vecdot(numbers, numbers).shape == (4,)


def test_dtypes() -> None:
    small, large = np.ones((2, 2), np.int32), np.ones((2, 2), np.int64)
    assert gg.matmul(small, large).dtype == np.int64
    with pytest.raises(CaptureError, match="do not combine"):
        ones(2, 2) @ small
    with pytest.raises(CaptureError, match="it takes numbers"):
        gg.matmul(small > 0, small > 0)
