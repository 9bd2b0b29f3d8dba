from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.widening import dtype_name, is_wide, plain, widen


def test_float32_is_kept_in_float64_and_keeps_its_name() -> None:
    wide = widen(np.array([0.5, 1.25], np.float32), "float32")
    assert wide.dtype == np.float64
    assert is_wide(wide)
    assert dtype_name(wide) == "float32"
    assert is_wide(wide[1:] * 2.0)
    assert plain(wide).tolist() == [0.5, 1.25]
    assert not is_wide(plain(wide))


def test_other_values_stay_what_they_are() -> None:
    double, whole = np.array([0.5]), np.array([1, 2])
    assert widen(double, "float64") is double
    assert dtype_name(double) == "float64"
    assert widen(whole, "int64") is whole
    assert plain(whole) is whole
    with pytest.raises(KeyError):
        dtype_name(np.zeros(2, np.complex64))


def test_what_is_not_float64_any_more_has_no_mark() -> None:
    wide = widen(np.array([0.5]), "float32")
    assert not is_wide(wide > 0.0)
    assert not is_wide(wide.astype(np.int32))
