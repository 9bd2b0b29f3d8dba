"""Dtypes: which are computed, and how two of them combine.

Owns: the promotion table, and the refusals that name the fix. The rules, in full:

* the dtypes are float32, float64, int8, int16, int32, int64, uint8 and bool; float16 and bfloat16
  to store;
* two arrays of one dtype keep it; two kinds of integers, or float32 with float64, give the smallest
  dtype that has all numbers of both; every other mixture is refused (the Python array API standard
  leaves it undefined, and a silent choice would round numbers);
* a Python number takes the dtype of the array beside it, when it is of the same kind: an int or a
  float beside a float, an int that fits beside an integer, a bool beside bool;
* Python floats by themselves are float32;
* NumPy scalars count as Python numbers.

Must not: convert anything.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpugoblin.capture.caller import Place
from gpugoblin.catalog.spec import DTYPES, FLOATS, INTEGERS
from gpugoblin.errors import CaptureError

__all__ = ["DtypeLike", "Number", "catalog_dtype", "literal_dtype", "promote"]

Number = bool | int | float
DtypeLike = str | type[Any] | np.dtype[Any]

_BY_DTYPE: Final = {dtype: name for name, dtype in DTYPES.items()}
_STORED: Final = " Do so in NumPy, save that as another file, and open that one."


def catalog_dtype(dtype: object, place: Place, subject: str, *, stored: bool = False) -> str:
    """The catalog's name of a dtype given in any way that NumPy knows; `stored` in a file.

    Raises:
        CaptureError: `dtype_refused`, with the conversion that helps.
    """
    parsed = _parsed(dtype)
    name = None if parsed is None else _BY_DTYPE.get(parsed)
    if name is not None:
        return name
    shown = str(dtype) if parsed is None else str(parsed)
    fix = f"{_fix(parsed)}{_STORED}" if stored else _fix(parsed)
    raise CaptureError("dtype_refused", line=place, subject=subject, dtype=shown, fix=fix)


def _parsed(dtype: object) -> np.dtype[Any] | None:
    """NumPy's reading of a dtype; None for what NumPy does not know, and for None itself."""
    if dtype is None:
        return None
    try:
        return np.dtype(dtype)  # type: ignore[call-overload,no-any-return]  # any object
    except TypeError:
        return None


def _fix(dtype: np.dtype[Any] | None) -> str:
    if dtype is None:
        return "Convert it with NumPy first, and decide there what may be lost."
    if not dtype.isnative and dtype.newbyteorder("=") in _BY_DTYPE:
        return f'Convert the byte order: .astype("{dtype.newbyteorder("=").name}").'
    if dtype.kind == "f":
        return 'Convert it yourself, knowing what is rounded: .astype("float32").'
    if dtype.kind in "iu":
        wide = "int32" if dtype.itemsize < 4 else "int64"
        return f'Convert it yourself: .astype("{wide}").'
    if dtype.kind == "c":
        return "Pass real and imaginary part as two float32 arrays."
    return "Convert it with NumPy first, and decide there what may be lost."


def promote(operator: str, dtypes: tuple[str, ...], operands: str, place: Place) -> str:
    """The common dtype of arrays.

    Raises:
        CaptureError: `dtypes_mixed`.
    """
    kinds = set(dtypes)
    if len(kinds) == 1:
        return dtypes[0]
    if kinds <= set(INTEGERS) or kinds <= set(FLOATS):
        return np.result_type(*(DTYPES[kind] for kind in kinds)).name
    target = "float32" if "float32" in kinds else next(iter(sorted(kinds - {"bool"})))
    raise CaptureError(
        "dtypes_mixed",
        line=place,
        operator=operator,
        operands=operands,
        cause=f"{' and '.join(sorted(kinds))} do not combine by themselves",
        fix=f'Convert one side: .astype("{target}").',
    )


def literal_dtype(operator: str, number: Number, dtype: str, place: Place) -> str:
    """`dtype`, once `number` is of its kind and fits.

    Raises:
        CaptureError: `dtypes_mixed`.
    """
    if isinstance(number, bool):
        fits, cause = dtype == "bool", f"a bool does not combine with {dtype}"
        fix = "Write a number in place of the bool."
    elif dtype == "bool":
        fits, cause = False, "a number does not combine with bool"
        fix = 'Convert the array: .astype("int32") or .astype("float32").'
    elif dtype == "float32":
        fits, cause, fix = _fits_float32(number)
    elif dtype == "float64":
        fits, cause, fix = True, "", ""
    elif isinstance(number, int) and dtype in INTEGERS:
        low, high = np.iinfo(DTYPES[dtype]).min, np.iinfo(DTYPES[dtype]).max
        fits, cause = low <= number <= high, f"{number} does not fit {dtype}"
        fix = (
            "Use a smaller number." if dtype == "int64" else 'Convert the array: .astype("int64").'
        )
    else:
        fits, cause = False, f"the float {number!r} does not combine with {dtype}"
        fix = 'Convert the array: .astype("float32"), or write an int.'
    if fits:
        return dtype
    raise CaptureError(
        "dtypes_mixed",
        line=place,
        operator=operator,
        operands=f"{dtype} and {number!r}",
        cause=cause,
        fix=fix,
    )


def _fits_float32(number: int | float) -> tuple[bool, str, str]:
    limit = float(np.finfo(np.float32).max)
    finite = number == number and abs(number) != float("inf")
    return (
        not finite or abs(number) <= limit,
        f"{number!r} is beyond the largest float32, {limit:.6g}",
        "Use a smaller number, or float('inf').",
    )
