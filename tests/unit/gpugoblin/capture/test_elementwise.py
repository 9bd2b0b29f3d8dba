"""Elementwise functions: broadcasting, promotion, and their refusals in the researcher's words."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError

X = gg.array(np.ones((3, 4), np.float32))
N = gg.array(np.arange(4))
B = gg.array(np.array([True, False, True, True]))


def test_shapes_broadcast_from_the_last_axis() -> None:
    assert (X + gg.array(np.ones((2, 1, 4), np.float32))).shape == (2, 3, 4)
    assert (X[:, None] * X).shape == (3, 3, 4)
    assert (gg.zeros((0, 4)) + X[:1]).shape == (0, 4)


def test_shapes_that_do_not_broadcast_name_the_axis() -> None:
    with pytest.raises(CaptureError) as caught:
        X + gg.array(np.ones(3, np.float32))
    text = str(caught.value)
    assert "add of float32[3, 4] and float32[3]" in text
    assert "axis -1 has the extents 3 and 4" in text
    assert text.endswith("[shapes_differ]")


def test_int32_and_int64_meet_in_int64() -> None:
    assert (N.astype("int32") * N).dtype == np.int64


def test_python_numbers_take_the_arrays_dtype() -> None:
    for result in (X + 1, 1.5 - X, X * np.float64(0.1), np.int64(3) / X):
        assert result.dtype == np.float32
    assert (N * 2).dtype == np.int64
    assert (N.astype("int32") + 1).dtype == np.int32


@pytest.mark.parametrize("make", [lambda: N / 2, lambda: gg.exp(N), lambda: B + B, lambda: -B])
def test_a_function_that_does_not_take_the_dtype(make: object) -> None:
    assert callable(make)
    with pytest.raises(CaptureError) as caught:
        make()
    assert caught.value.code == "argument_refused"
    assert ".astype(" in caught.value.next_step


def test_comparisons_and_logic_give_bools() -> None:
    assert ((X > 0) & (X < 2)).dtype == np.bool_
    assert (~B | (N == 2)).dtype == np.bool_
    assert (N & 1).dtype == np.int64


def test_where_needs_a_bool_and_one_dtype() -> None:
    assert gg.where(B, 1.0, 2).dtype == np.float32
    assert gg.where(B, N, 0).dtype == np.int64
    assert gg.where(B, True, False).dtype == np.bool_
    with pytest.raises(CaptureError, match="must be bool"):
        gg.where(N, 1, 2)
    with pytest.raises(CaptureError, match="do not combine"):
        gg.where(B, N, X)


def test_the_rank_is_bounded() -> None:
    deep = gg.array(np.ones((1,) * 8, np.float32))
    with pytest.raises(CaptureError, match="at most 8"):
        deep[None] + 1
