"""The one meaning of a change of dtype, shared by the operator `cast` and by formulas.

* float to integer: toward zero, saturating at the ends of the range; NaN becomes 0;
* integer to a narrower integer: two's complement wrap;
* integer to float32: nearest, ties to even, in one rounding;
* anything to bool: not equal to zero (NaN is True); bool to a number: 0 or 1.
"""

from __future__ import annotations

import numpy as np

from gpugoblin.catalog.spec import DTYPES, Array

__all__ = ["cast_array"]


def cast_array(value: Array, dtype: str, *, wide: bool = False) -> Array:
    """`value` in `dtype`; with `wide`, float32 is represented as float64 and not rounded."""
    if dtype == "bool":
        return np.asarray(value != 0)
    if dtype == "float32":
        return value.astype(np.float64 if wide else np.float32)
    if value.dtype.kind != "f":
        return value.astype(DTYPES[dtype])
    return _saturate(value, DTYPES[dtype])


def _saturate(value: Array, dtype: np.dtype[np.int32 | np.int64]) -> Array:
    info = np.iinfo(dtype)
    # 2**31 and 2**63 are exact in every float dtype, while 2**63 - 1 is not.
    above = value >= -float(info.min)
    below = value < float(info.min)
    plain = np.where(above | below | np.isnan(value), np.zeros((), value.dtype), value)
    result = plain.astype(dtype)
    result[above] = info.max
    result[below] = info.min
    return result
