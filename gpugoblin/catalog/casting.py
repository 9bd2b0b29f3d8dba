"""The one meaning of a change of dtype, shared by the operator `cast` and by formulas.

* float to integer: toward zero, saturating at the ends of the range; NaN becomes 0;
* integer to a narrower integer: two's complement wrap;
* to float32 and float64: nearest, ties to even, in one rounding;
* to float16 and bfloat16: through float32, nearest, ties to even;
* anything to bool: not equal to zero (NaN is True); bool to a number: 0 or 1.

bfloat16 is two opaque bytes in NumPy (`spec.DTYPES`); `decoded` and `encoded` are its meaning.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpugoblin.catalog.scalar_numpy import round_bfloat16, round_float16
from gpugoblin.catalog.spec import DTYPES, Array

__all__ = ["STORAGE", "cast_array", "decoded", "encoded"]

STORAGE: Final = frozenset({"float16", "bfloat16"})
"""Floats that are only stored."""


def cast_array(value: Array, dtype: str, *, wide: bool = False) -> Array:
    """`value` in `dtype`; with `wide`, float32 is represented as float64 and not rounded, and
    float16 and bfloat16 as float64 of their numbers."""
    with np.errstate(over="ignore"):
        return _cast(decoded(value), dtype, wide)


def _cast(value: Array, dtype: str, wide: bool) -> Array:
    if dtype in STORAGE:
        narrow = value if value.dtype == np.float64 and wide else value.astype(np.float32)
        rounded = (round_float16 if dtype == "float16" else round_bfloat16)(narrow)
        return rounded.astype(np.float64) if wide else encoded(rounded, dtype)
    if dtype == "bool":
        return np.asarray(value != 0)
    if dtype == "float64":
        return value.astype(np.float64)
    if dtype == "float32":
        return value.astype(np.float64 if wide else np.float32)
    if value.dtype.kind != "f":
        return value.astype(DTYPES[dtype])
    return _saturate(value, DTYPES[dtype])


def _saturate(value: Array, dtype: np.dtype[Any]) -> Array:
    info = np.iinfo(dtype)
    # 2**31 and 2**63 are exact in every float dtype, while 2**63 - 1 is not.
    above = value >= float(int(info.max) + 1)
    below = value < float(info.min)
    plain = np.where(above | below | np.isnan(value), np.zeros((), value.dtype), value)
    result = plain.astype(dtype)
    result[above] = info.max
    result[below] = info.min
    return result


def decoded(array: Array) -> Array:
    """The numbers of a stored float, in float32; other arrays as they are."""
    if array.dtype == DTYPES["bfloat16"]:
        words = array.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return words.view(np.float32)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def encoded(numbers: Array, dtype: str) -> Array:
    """Numbers that the dtype has, as it stores them."""
    if dtype == "bfloat16":
        words = np.ascontiguousarray(numbers, np.float32).reshape(numbers.shape).view(np.uint32)
        return (words >> np.uint32(16)).astype(np.uint16).view(DTYPES["bfloat16"])
    return numbers.astype(np.float16)
