"""float32 values that are not rounded: how the references keep them, and what they are called.

Owns: the mark on a float64 array that stands for a float32 tensor. A composite's reference, and
`interpret_wide`, carry float32 in float64 from the inputs to the results; without the mark such an
array would be a tensor of dtype float64. NumPy keeps the mark through ufuncs and views and loses it
elsewhere, so those who carry values mark each result again; operators ask only for their operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin.catalog.spec import DTYPES, Array

__all__ = ["WideFloat32", "dtype_name", "is_wide", "plain", "widen"]

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class WideFloat32(np.ndarray[Any, np.dtype[np.float64]]):
    """float64 numbers that stand for a tensor of float32."""


def widen(array: Array, dtype: str) -> Array:
    """A value of a graph as the references carry it: float32 in float64, all others as they are."""
    if dtype != "float32":
        return array
    wide: npt.NDArray[np.float64] = np.asarray(array, np.float64)
    return wide.view(WideFloat32)


def plain(array: Array) -> Array:
    """The same numbers without the mark."""
    return array.view(np.ndarray) if isinstance(array, WideFloat32) else array


def is_wide(array: Array) -> bool:
    """Does it stand for float32?"""
    return isinstance(array, WideFloat32) and array.dtype == np.float64


def dtype_name(array: Array) -> str:
    """The dtype of the graph's value: float32 for a marked one.

    Raises:
        KeyError: the catalog has no such dtype.
    """
    return "float32" if is_wide(array) else _NAMES[array.dtype]
