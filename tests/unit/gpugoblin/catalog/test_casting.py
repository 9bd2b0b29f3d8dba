from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.casting import cast_array


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_saturate_and_nan_is_zero(dtype: str) -> None:
    value = np.array([1.9, -1.9, 3e9, -3e9, np.inf, -np.inf, np.nan, 2.0**31], dtype)
    assert cast_array(value, "int32").tolist() == [
        1, -1, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0, 2**31 - 1,
    ]  # fmt: skip
    far = np.array([2.0**63, -(2.0**63), 1e30, -1e30, 2.0**62], dtype)
    assert cast_array(far, "int64").tolist() == [
        2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 2**62,
    ]  # fmt: skip


def test_integers_wrap_when_narrowed() -> None:
    value = np.array([2**32 + 5, 2**31, -(2**31) - 1], np.int64)
    assert cast_array(value, "int32").tolist() == [5, -(2**31), 2**31 - 1]


def test_integers_are_rounded_once() -> None:
    # Through float64 this would round twice, to 2**60.
    value = np.array([2**60 + 2**36 + 1], np.int64)
    assert cast_array(value, "float32").tolist() == [float(2**60 + 2**37)]


def test_bool_means_not_zero() -> None:
    value = np.array([0.0, -0.0, 1e-45, np.nan, -2.0], np.float32)
    assert cast_array(value, "bool").tolist() == [False, False, True, True, True]
    assert cast_array(np.array([0, 256]), "bool").tolist() == [False, True]
    assert cast_array(np.array([True, False]), "float32").tolist() == [1.0, 0.0]
    assert cast_array(np.array([True, False]), "int64").dtype == np.int64


def test_wide_keeps_float64() -> None:
    result = cast_array(np.array([2**53 - 1], np.int64), "float32", wide=True)
    assert result.dtype == np.float64
    assert result.tolist() == [float(2**53 - 1)]


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32"])
def test_scalars_stay_arrays(dtype: str) -> None:
    result = cast_array(np.array(2.5, np.float32), dtype)
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
