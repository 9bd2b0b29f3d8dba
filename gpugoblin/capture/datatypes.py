"""What the Python array API standard says about dtypes, constants and the namespace itself.

Owns: those functions and names. A dtype of the standard that is not computed here has its name all
the same: whoever uses it is told what helps.
"""

from __future__ import annotations

import builtins
import math
from typing import Any, Final

import numpy as np

from gpugoblin.capture.applying import refused
from gpugoblin.capture.array import DEVICE, Array, ArrayLike, as_value
from gpugoblin.capture.caller import caller
from gpugoblin.capture.dtypes import DtypeLike, catalog_dtype, literal_dtype, promote
from gpugoblin.catalog.spec import DTYPES

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "bool", "can_cast", "complex64",
    "complex128", "e", "finfo", "float32", "float64", "from_dlpack", "iinfo", "inf", "int8",
    "int16", "int32", "int64", "isdtype", "nan", "newaxis", "pi", "result_type", "uint8", "uint16",
    "uint32", "uint64",
]  # fmt: skip

__array_api_version__: Final = "2024.12"

e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
pi: Final = math.pi
newaxis: Final = None

bool: Final = np.dtype("bool")
int8: Final = np.dtype("int8")
int16: Final = np.dtype("int16")
int32: Final = np.dtype("int32")
int64: Final = np.dtype("int64")
uint8: Final = np.dtype("uint8")
uint16: Final = np.dtype("uint16")
uint32: Final = np.dtype("uint32")
uint64: Final = np.dtype("uint64")
float32: Final = np.dtype("float32")
float64: Final = np.dtype("float64")
complex64: Final = np.dtype("complex64")
complex128: Final = np.dtype("complex128")

Kind = Any
_KINDS: Final = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def from_dlpack(x: Any) -> Array:
    """A lazy array over what another library holds, if it lies in this process's memory."""
    return Array(as_value(np.from_dlpack(x), caller()))


def finfo(dtype: Any) -> np.finfo[Any]:
    """The limits of a float dtype, or of that of an array."""
    return np.finfo(dtype.dtype if isinstance(dtype, Array) else dtype)


def iinfo(dtype: Any) -> np.iinfo[Any]:
    """The limits of an integer dtype, or of that of an array."""
    return np.iinfo(dtype.dtype if isinstance(dtype, Array) else dtype)


def isdtype(dtype: DtypeLike, kind: Kind) -> builtins.bool:
    """Whether a dtype is of a kind (`integral`, `real floating`, ...), of one of several, or equal
    to a dtype."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return np.dtype(dtype).kind in _KINDS[kind]
    return np.dtype(dtype) == np.dtype(kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype in which arrays, dtypes and Python numbers combine.

    Raises:
        CaptureError: `dtypes_mixed`, where they do not.
    """
    place = caller()
    names: list[str] = []
    numbers: list[int | float] = []
    for given in arrays_and_dtypes:
        if isinstance(given, builtins.bool | int | float):
            numbers.append(given)
        else:
            names.append(catalog_dtype(getattr(given, "dtype", given), place, "result_type"))
    if not names:
        raise refused("result_type", [], "there is no array and no dtype", "Pass one.", place)
    name = promote("result_type", tuple(names), " and ".join(names), place)
    for number in numbers:
        literal_dtype("result_type", number, name, place)
    return DTYPES[name]


def can_cast(from_: DtypeLike | ArrayLike, to: DtypeLike) -> builtins.bool:
    """Whether a dtype turns into another by itself where they meet."""
    place = caller()
    source = catalog_dtype(getattr(from_, "dtype", from_), place, "can_cast")
    target = catalog_dtype(to, place, "can_cast")
    return source == target or (source, target) == ("int32", "int64")


class _Info:
    """What the namespace has; see the standard."""

    def capabilities(self) -> dict[str, Any]:
        """No boolean indexing and no shapes that depend on numbers; at most 8 axes."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 8}

    def default_device(self) -> str:
        """`grid`."""
        return DEVICE

    def devices(self) -> list[str]:
        """`grid` alone."""
        return [DEVICE]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """What Python numbers become by themselves."""
        return {"real floating": float32, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Kind = None) -> dict[str, np.dtype[Any]]:
        """The dtypes that are computed, of a kind."""
        kinds = tuple(_KINDS) if kind is None else kind
        return {name: dtype for name, dtype in DTYPES.items() if isdtype(dtype, kinds)}


def __array_namespace_info__() -> _Info:
    """What this namespace has: dtypes, devices and capabilities."""
    return _Info()
