"""From what a researcher passes to expression values: numbers, arrays in memory, sources.

Owns: what counts as a plain number, and the refusal of everything that is not numbers. Must not:
copy an array or convert a dtype.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpugoblin.capture.caller import Place
from gpugoblin.capture.dtypes import Number, catalog_dtype
from gpugoblin.capture.expression import CONSTANT, INPUT, Expression, Value
from gpugoblin.capture.hashing import fingerprint_array
from gpugoblin.capture.source import MemorySource, Source
from gpugoblin.catalog.spec import DTYPES, MAX_RANK, TensorSpec
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.errors import CaptureError

__all__ = ["MAX_CONSTANT_BYTES", "as_number", "constant_value", "memory_value", "source_value"]

MAX_CONSTANT_BYTES: Final = 64 * 1024
"""Larger arrays travel as inputs: a graph is at most 1 MiB in a submission."""


def as_number(given: object) -> Number | None:
    """A Python number; NumPy scalars count as such. None for anything else."""
    if isinstance(given, np.generic):
        given = given.item()
    return given if isinstance(given, bool | int | float) else None


def source_value(source: Source) -> Value:
    """The value of a source."""
    node = Expression(INPUT, (), (source.spec,), source=source, place=source.place)
    return Value(node, 0)


def constant_value(array: NumpyArray, place: Place) -> Value:
    """A small array that becomes part of the graph. Its dtype is one of the catalog's."""
    spec = TensorSpec(catalog_dtype(array.dtype, place, "the constant"), array.shape)
    data = np.ascontiguousarray(array).reshape(array.shape)
    return Value(Expression(CONSTANT, (), (spec,), data=data, place=place), 0)


def memory_value(given: object, place: Place) -> Value:
    """The value of numbers in this process: an ndarray, a list, anything with a buffer.

    A list of Python floats is float32, of ints int64: nothing in them says otherwise.

    Raises:
        CaptureError: `dtype_refused`, `not_an_array`, `argument_refused`.
    """
    array = given if isinstance(given, np.ndarray) else _from_python(given, place)
    dtype = catalog_dtype(array.dtype, place, "the array")
    if array.ndim > MAX_RANK:
        raise CaptureError(
            "not_an_array",
            line=place,
            subject="the array",
            kind=f"of rank {array.ndim} (the most is {MAX_RANK})",
            fix="Merge some axes with reshape.",
        )
    spec = TensorSpec(dtype, tuple(array.shape))
    return source_value(MemorySource(array, spec, fingerprint_array(array), place))


def _from_python(given: object, place: Place) -> NumpyArray:
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as cause:
        raise _no_array(given, place) from cause
    if array.dtype.kind not in "biufc":
        raise _no_array(given, place)
    if array.dtype == np.float64 and not _has_dtype(given):
        return array.astype(DTYPES["float32"])
    return array


def _has_dtype(given: Any) -> bool:
    """True when the numbers came with a dtype of their own, which then counts."""
    if isinstance(given, list | tuple):
        return any(_has_dtype(item) for item in given)
    return not isinstance(given, bool | int | float | np.generic)


def _no_array(given: object, place: Place) -> CaptureError:
    return CaptureError(
        "not_an_array",
        line=place,
        subject="the argument",
        kind=f"a {type(given).__module__}.{type(given).__qualname__}".replace("builtins.", ""),
        fix="Pass a NumPy array, a list of numbers, or what gg.open and gg.array return.",
    )
