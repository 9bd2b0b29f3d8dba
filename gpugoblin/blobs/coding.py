"""How the bytes of a tensor are written into a blob: a closed, declared table.

Owns: the codings and their functions. Must not: choose one; a task's input says which it has. The
hash of a blob is over the coded bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin.errors import StoreError

__all__ = ["CODINGS", "TENSOR_DTYPES", "BlobCoding", "coding"]

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

TENSOR_DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "float32": np.dtype("<f4"),
        "int32": np.dtype("<i4"),
        "int64": np.dtype("<i8"),
        "bool": np.dtype("?"),
        "int8": np.dtype("i1"),
        "int16": np.dtype("<i2"),
        "uint8": np.dtype("u1"),
        "float16": np.dtype("<f2"),
        "bfloat16": np.dtype("V2"),
        "float64": np.dtype("<f8"),
    }
)
"""The dtypes of the wire (`gpugoblin.wire.bounds.Dtype`) and their bytes."""


@dataclass(frozen=True, slots=True)
class BlobCoding:
    """One coding.

    Args:
        name: as tasks name it.
        lossless: whether decoding gives back the same bits.
        coded_bytes: size of a coded tensor of a dtype and shape.
        encode: tensor to bytes. decode: bytes, dtype and shape to a read-only tensor.
    """

    name: str
    lossless: bool
    coded_bytes: Callable[[str, Shape], int]
    encode: Callable[[Array], memoryview]
    decode: Callable[[memoryview, str, Shape], Array]


def _raw_bytes(dtype: str, shape: Shape) -> int:
    return math.prod(shape) * TENSOR_DTYPES[dtype].itemsize


def _raw_encode(array: Array) -> memoryview:
    """C-order little-endian bytes; no copy where the array is laid out so already."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return memoryview(plain.reshape(-1).view(np.uint8).data)


def _raw_decode(data: memoryview, dtype: str, shape: Shape) -> Array:
    expected = _raw_bytes(dtype, shape)
    if data.nbytes != expected:
        path = f"(a raw blob of {dtype}{list(shape)})"
        raise StoreError("array_truncated", path=path, size=data.nbytes, expected=expected)
    array = np.frombuffer(data, TENSOR_DTYPES[dtype]).reshape(shape)
    array.flags.writeable = False
    return array


CODINGS: Mapping[str, BlobCoding] = MappingProxyType(
    {
        "raw": BlobCoding(
            name="raw",
            lossless=True,
            coded_bytes=_raw_bytes,
            encode=_raw_encode,
            decode=_raw_decode,
        )
    }
)
"""Every coding that this version knows, by name."""


def coding(name: str) -> BlobCoding:
    """The coding of that name. Raises StoreError `coding_unknown`."""
    found = CODINGS.get(name)
    if found is None:
        raise StoreError("coding_unknown", coding=name[:40], known=", ".join(sorted(CODINGS)))
    return found
