from __future__ import annotations

import math

import numpy as np
import pytest

from gpugoblin.catalog import scalar_numpy as own

MIN32, MAX32 = -(2**31), 2**31 - 1


def i32(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, np.int32)


def test_erf_in_float32_is_good_to_two_places() -> None:
    x = np.concatenate([np.linspace(-5, 5, 100_001), np.geomspace(1e-38, 1, 1000)]).astype("f4")
    exact = np.array([math.erf(value) for value in x.tolist()])
    places = np.abs(own.erf(x) - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert places.max() <= 2.0


def test_erf_at_the_edges() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    result = own.erf(x)
    np.testing.assert_array_equal(result, [0.0, -0.0, 1.0, -1.0, np.nan])
    assert np.signbit(result).tolist()[:2] == [False, True]
    assert own.erf(np.array(0.5)) == math.erf(0.5)


def test_reciprocals_and_sigmoid_at_the_edges() -> None:
    x = np.array([0.0, -0.0, np.inf, -1.0], np.float32)
    np.testing.assert_array_equal(own.reciprocal(x), [np.inf, -np.inf, 0.0, -1.0])
    np.testing.assert_array_equal(own.reciprocal_sqrt(x), [np.inf, -np.inf, 0.0, np.nan])
    far = np.array([-1000.0, 0.0, 1000.0, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(own.sigmoid(far), [0.0, 0.5, 1.0, 1.0, 0.0])
    assert own.sigmoid(far).dtype == np.float32


def test_integer_division_is_defined_everywhere() -> None:
    left, right = i32(7, -7, 7, MIN32, MIN32, 0), i32(2, 2, 0, -1, 0, 0)
    assert own.floor_divide(left, right).tolist() == [3, -4, 0, MIN32, 0, 0]
    assert own.floor_modulo(left, right).tolist() == [1, 1, 0, 0, 0, 0]
    assert own.truncated_modulo(left, right).tolist() == [1, -1, 0, 0, 0, 0]


def test_remainders_of_floats() -> None:
    left, right = np.array([5.5, -5.5, 1.0], np.float32), np.array([2.0, 2.0, 0.0], np.float32)
    np.testing.assert_array_equal(own.floor_modulo(left, right), [1.5, 0.5, np.nan])
    np.testing.assert_array_equal(own.truncated_modulo(left, right), [1.5, -1.5, np.nan])


@pytest.mark.parametrize(
    ("base", "exponent", "result"),
    [
        (3, 4, 81),
        (-3, 3, -27),
        (0, 0, 1),
        (2, 31, MIN32),
        (2, 32, 0),
        (3, 40, (3**40 + 2**31) % 2**32 - 2**31),
        (1, -5, 1),
        (-1, -5, -1),
        (-1, -4, 1),
        (2, -1, 0),
        (0, -1, 0),
        (-1, MIN32, 1),
        (-1, MAX32, -1),
    ],
)
def test_integer_power(base: int, exponent: int, result: int) -> None:
    assert own.power(i32(base), i32(exponent)).tolist() == [result]


def test_float_power_is_the_power_of_c() -> None:
    x = np.array([-2.0, -8.0, 0.0, 1.0, np.nan], np.float32)
    y = np.array([3.0, 1 / 3, -1.0, np.nan, 0.0], np.float32)
    np.testing.assert_array_equal(own.power(x, y), [-8.0, np.nan, np.inf, 1.0, 1.0])


def test_shifts_outside_of_the_width() -> None:
    value, by = i32(1, -8, -8, 1, 3, -1), i32(31, 1, 32, 33, -1, -5)
    assert own.shift_left(value, by).tolist() == [MIN32, -16, 0, 0, 0, 0]
    assert own.shift_right(value, by).tolist() == [0, -4, -1, 0, 0, -1]
    wide = np.array([1, -1], np.int64)
    assert own.shift_left(wide, np.array([63, 64])).tolist() == [-(2**63), 0]
    assert own.shift_right(wide, np.array([1, 99])).tolist() == [0, -1]
