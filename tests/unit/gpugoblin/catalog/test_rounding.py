from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.rounding import (
    FLOAT32,
    FLOAT64,
    TINY,
    U,
    add_errors,
    chain,
    finite_part,
    format_named,
    format_of,
    gamma,
    guard_overflow,
    to_range,
    with_flush,
)
from gpugoblin.catalog.widening import widen


def test_constants_are_those_of_float32() -> None:
    info = np.finfo(np.float32)
    assert info.eps / 2 == U
    assert info.tiny == TINY
    with np.errstate(over="ignore"):
        assert np.isinf(np.float64(FLOAT32.limit).astype(np.float32))
    assert FLOAT32.unit == U
    assert FLOAT32.tiny == TINY
    assert np.isfinite(np.nextafter(FLOAT32.limit, 0).astype(np.float32))


@pytest.mark.parametrize(
    ("count", "length"),
    [(0, 0), (1, 1), (512, 512), (513, 514), (512 * 512, 1024), (10**6, 512 + 512 + 4)],
)
def test_chain_of_nested_blocks(count: int, length: int) -> None:
    assert chain(count, 512) == length


def test_gamma_grows_and_ends() -> None:
    assert gamma(0) == 0.0
    assert gamma(1) == pytest.approx(U)
    assert gamma(2.0**24) == float("inf")


def test_errors_add_up_and_none_is_exact() -> None:
    assert add_errors(None, None) is None
    total = add_errors(None, np.array([1.0, 2.0]), 0.5)
    assert total is not None
    assert total.tolist() == [1.5, 2.5]


def test_operands_below_the_normal_range_may_be_flushed() -> None:
    assert with_flush(np.array([0.0, 1.0], np.float32), None) is None
    assert with_flush(np.array([1, 2]), None) is None
    error = with_flush(np.array([1e-40, 1.0], np.float32), None)
    assert error is not None
    assert error[1] == 0.0
    assert error[0] == pytest.approx(1e-40, rel=1e-3)


def test_range_of_float32() -> None:
    wide = np.array([1e39, -1e39, 3e38, np.nan])
    np.testing.assert_array_equal(to_range(wide), [np.inf, -np.inf, 3e38, np.nan])


def test_finite_part_and_overflow() -> None:
    assert finite_part(np.array([np.nan, np.inf, 2.0], np.float32)).tolist() == [0.0, 0.0, 2.0]
    assert finite_part(np.array([3])).tolist() == [3.0]
    guarded = guard_overflow(np.array([1.0, 3.4e38]), np.array([0.5, 1e37]))
    assert guarded.tolist() == [0.5, np.inf]


def test_float64_has_its_own_constants_with_room_for_the_reference() -> None:
    info = np.finfo(np.float64)
    assert info.eps == FLOAT64.unit
    assert info.tiny == FLOAT64.tiny
    assert gamma(3, FLOAT64) == pytest.approx(3 * 2.0**-52)
    large = np.array([1e300, -1e39])
    np.testing.assert_array_equal(to_range(large, FLOAT64), large)
    assert guard_overflow(large, np.array([1.0, 1.0]), FLOAT64).tolist() == [1.0, 1.0]
    assert with_flush(np.array([1e-40]), None) is None
    flushed = with_flush(np.array([1e-310]), None)
    assert flushed is not None
    assert flushed.tolist() == [1e-310]


def test_the_format_is_that_of_the_arrays() -> None:
    single, double = np.zeros(2, np.float32), np.zeros(2)
    assert format_of([single], [np.zeros(2, np.int64)]) is FLOAT32
    assert format_of([single, double]) is FLOAT64
    assert format_of([widen(double, "float32")]) is FLOAT32
    assert [format_named(name) for name in ("float64", "float32", "int8")] == [
        FLOAT64,
        FLOAT32,
        FLOAT32,
    ]
