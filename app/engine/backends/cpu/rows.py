"""Loops over rows of float32 that were compiled when the package was built (`rows.c`).

Owns: calling them. Where the library is not there (`library.py`), `ROWS` is None, and the kernels
do the same in NumPy. Must not: change what a kernel gives beyond what its bounds allow, or serve
class `exact`.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from app.engine.backends.cpu.library import LIBRARY
from gpugoblin.catalog.spec import Array

__all__ = ["ROWS", "Rows", "ready"]

_POINTER: Final = ctypes.c_void_p
_COUNT: Final = ctypes.c_ssize_t
_NUMBER: Final = ctypes.c_float


def ready(*arrays: Array) -> bool:
    """Are these rows that the loops can read: float32, in C order, aligned?"""
    return all(a.dtype == np.float32 and a.flags.c_contiguous and a.flags.aligned for a in arrays)


class Rows:
    """The loops. Arrays must be `ready`; results are written where they are to stand."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._layer_norm = library.gg_layer_norm
        self._layer_norm.argtypes = [
            *(_POINTER, _POINTER, _COUNT, _COUNT, _NUMBER, _POINTER, _POINTER)
        ]
        self._gelu = library.gg_gelu
        self._gelu.argtypes = [_POINTER, _POINTER, _COUNT, _POINTER, _COUNT, _NUMBER]
        self._powers = library.gg_powers
        self._powers.argtypes = [_POINTER, _COUNT, _COUNT, _NUMBER, _POINTER]
        for function in (self._layer_norm, self._gelu, self._powers):
            function.restype = None

    def layer_norm(
        self, source: Array, out: Array, epsilon: float, scale: Array | None, shift: Array | None
    ) -> None:
        """`source`, `out`: [rows, count]. `scale`, `shift`: [count]; a shift needs a scale."""
        rows, count = source.shape
        self._layer_norm(
            *(source.ctypes.data, out.ctypes.data, rows, count, epsilon),
            *(None if one is None else one.ctypes.data for one in (scale, shift)),
        )

    def gelu(self, source: Array, out: Array, series: Array, most: float) -> None:
        """x / (1 + exp(x S(x^2))) for a polynomial S of 7 coefficients, lowest power first, whose
        argument stands still at `most`. `source` and `out` have one size."""
        self._gelu(
            *(source.ctypes.data, out.ctypes.data, source.size),
            *(series.ctypes.data, series.size, most),
        )

    def powers(self, scores: Array, scale: float, sums: Array) -> None:
        """`scores` [rows, columns] become exp(scale x - the largest of the row), and `sums` [rows]
        are their sums."""
        rows, count = scores.shape
        self._powers(scores.ctypes.data, rows, count, scale, sums.ctypes.data)


ROWS: Final = None if LIBRARY is None else Rows(LIBRARY)
