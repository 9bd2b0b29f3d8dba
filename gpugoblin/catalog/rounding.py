"""Rounding of floats: the constants and bounds that the operators' tolerances are made of.

Owns: what an honest evaluation in class `float32` may do. Must not: know any operator.

Model (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002):
a basic operation has a relative error of at most u = 2^-24 (section 2.2), `n` of them in a row
gamma(n) = n u / (1 - n u) (lemma 3.1), and a sum of n terms in any order is off by at most
gamma(h) times the sum of absolute values, where h is the longest chain of additions (section 4.2).
Results below 2^-126 may be flushed to zero, also when they are operands.

What backends promise in return, so that the bounds stay sharp: sums are made in blocks, so that
no chain of additions is longer than `chain(n, block)` with the operator's block.

float64 has the same model with its own constants (`FLOAT64`). The reference computes float64 in
float64, as one more honest evaluation, so its unit there is 2^-52: 2^-53 for the backend, and as
much for the reference.

An *error* is a float64 array that broadcasts against its value, or None for "exact". Infinity means
that any result is admissible, also NaN: honest evaluations can differ there without bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpugoblin.catalog.spec import Array
from gpugoblin.catalog.widening import is_wide

__all__ = [
    "FLOAT32",
    "FLOAT64",
    "MATMUL_BLOCK",
    "REDUCE_BLOCK",
    "TINY",
    "Error",
    "Format",
    "U",
    "add_errors",
    "chain",
    "finite_part",
    "format_named",
    "format_of",
    "gamma",
    "guard_overflow",
    "to_range",
    "with_flush",
]

Error = Array | None

U: Final = 2.0**-24
"""Unit roundoff of float32."""

TINY: Final = 2.0**-126
"""Smallest normal float32."""


@dataclass(frozen=True, slots=True)
class Format:
    """What bounds ask of a float format.

    Args:
        unit: the relative error of one basic operation; for float64 with that of the reference.
        tiny: the smallest normal number.
        limit: magnitudes from here on may be infinity.
    """

    unit: float
    tiny: float
    limit: float


FLOAT32: Final = Format(U, TINY, 2.0**128 - 2.0**103)
FLOAT64: Final = Format(2.0**-52, 2.0**-1022, float(np.finfo(np.float64).max))

REDUCE_BLOCK: Final = 512
"""A backend's `reduce` adds at most this many terms in a row, then adds the partial sums so too."""

MATMUL_BLOCK: Final = 4096
"""The same for `matmul` along its inner index."""


def chain(count: int, block: int) -> int:
    """The longest chain of additions when `count` terms are added in nested blocks of `block`."""
    length = 0
    while count > block:
        length += block
        count = -(-count // block)
    return length + count


def format_named(dtype: str) -> Format:
    """The format of a dtype; that of float32 for all others than float64."""
    return FLOAT64 if dtype == "float64" else FLOAT32


def format_of(*groups: Iterable[Array]) -> Format:
    """The format that an operator with these operands and results rounds to."""
    for group in groups:
        for array in group:
            if array.dtype == np.float64 and not is_wide(array):
                return FLOAT64
    return FLOAT32


def gamma(count: float, form: Format = FLOAT32) -> float:
    """gamma(n) = n u / (1 - n u); infinite where n u >= 1."""
    share = count * form.unit
    return share / (1.0 - share) if share < 1.0 else float("inf")


def add_errors(*errors: Error | float) -> Error:
    """The sum of errors; None where all are exact."""
    total: Any = None
    for error in errors:
        if error is not None:
            total = error if total is None else total + error
    return None if total is None else np.asarray(total, np.float64)


def with_flush(value: Array, error: Error, form: Format | None = None) -> Error:
    """Adds the flush of a subnormal operand to zero, where it has such elements."""
    if value.dtype.kind != "f":
        return error
    magnitude = np.abs(value)
    small = (magnitude < (form or format_of([value])).tiny) & (magnitude > 0)
    if not small.any():
        return error
    return add_errors(error, np.where(small, magnitude, 0.0).astype(np.float64))


def finite_part(value: Array) -> Array:
    """float64, with NaN and infinity replaced by 0: their effect on a result is not rounding."""
    wide = value.astype(np.float64)
    if value.dtype.kind == "f":
        wide[~np.isfinite(wide)] = 0.0
    return wide


def to_range(value: Array, form: Format = FLOAT32) -> Array:
    """float64 values with the range of the format: what rounds to infinity there is infinity."""
    if form is not FLOAT32:
        return value
    over = np.abs(value) >= form.limit
    if over.any():
        return np.where(over, np.copysign(np.inf, value), value)
    return value


def guard_overflow(magnitude: Array, error: Array, form: Format = FLOAT32) -> Array:
    """Makes the error infinite where some honest evaluation overflows and another may not.

    Args:
        magnitude: an upper bound, without overflow, of what any evaluation meets on its way.
    """
    reach = magnitude + error
    return np.where((reach >= form.limit) | np.isnan(reach), np.inf, error)
