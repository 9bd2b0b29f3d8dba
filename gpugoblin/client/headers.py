"""Headers of array files, read without loading anything that they describe.

Owns: npy, safetensors and zarr metadata, each bounded before it is parsed. Must not: read an
array's bytes, or decide what to do with a dtype that the catalog lacks.
"""

from __future__ import annotations

import ast
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

import numpy as np

from gpugoblin.errors import StoreError

__all__ = ["Header", "read_npy", "read_safetensors", "read_zarr"]

MAX_NPY_HEADER_BYTES: Final = 64 * 1024
MAX_SAFETENSORS_HEADER_BYTES: Final = 100 * 1024 * 1024
MAX_ZARR_METADATA_BYTES: Final = 1024 * 1024
_SAFETENSORS_DTYPES: Final = {
    "F32": "<f4",
    "I32": "<i4",
    "I64": "<i8",
    "BOOL": "|b1",
    "I8": "|i1",
    "I16": "<i2",
    "U8": "|u1",
    "F16": "<f2",
    "BF16": "|V2",
}


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about one array.

    Args:
        dtype: NumPy's name for it (`<f4`), or the file's own word where NumPy has none.
        column_major: the bytes are in Fortran order.
        offset_bytes: where the bytes begin (0 for zarr).
        raw: the header's bytes, for the fingerprint.
    """

    dtype: str
    shape: tuple[int, ...]
    column_major: bool
    offset_bytes: int
    raw: bytes


def read_npy(path: str) -> Header:
    """The header of a .npy file (format 1.0, 2.0 or 3.0).

    Raises:
        StoreError: `file_unreadable`, `file_malformed`, `file_truncated`.
    """
    start = _read(path, 12)
    if start[:6] != b"\x93NUMPY" or len(start) < 12:
        raise _malformed(path, "npy", "it does not begin as one")
    if start[6] not in (1, 2, 3):
        raise _malformed(path, "npy", f"its version {start[6]} is not known")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(start[8 : 8 + width], "little")
    offset_bytes = 8 + width + length
    if length > MAX_NPY_HEADER_BYTES:
        raise _malformed(path, "npy", f"its header claims {length} bytes")
    raw = _read(path, offset_bytes)
    if len(raw) < offset_bytes:
        raise _truncated(path, len(raw), offset_bytes)
    dtype, shape, column_major = _npy_fields(path, raw[8 + width :])
    header = Header(dtype.str, shape, column_major and len(shape) > 1, offset_bytes, raw)
    _check_length(path, offset_bytes + math.prod(shape) * dtype.itemsize)
    return header


def _npy_fields(path: str, text: bytes) -> tuple[np.dtype[np.generic], tuple[int, ...], bool]:
    try:
        fields = ast.literal_eval(text.decode("latin1").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as cause:
        raise _malformed(path, "npy", "its header is not a dictionary") from cause
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise _malformed(path, "npy", "its header lacks descr, fortran_order or shape")
    shape, column_major = fields["shape"], fields["fortran_order"]
    if not _is_shape(shape) or not isinstance(column_major, bool):
        raise _malformed(path, "npy", f"its shape is {shape!r}")
    try:
        dtype: np.dtype[np.generic] = np.dtype(fields["descr"])
    except (TypeError, ValueError) as cause:
        raise _malformed(path, "npy", f"its dtype is {fields['descr']!r}") from cause
    if dtype.hasobject or dtype.fields is not None:
        raise _malformed(path, "npy", "it holds Python objects or records, not numbers")
    return dtype, tuple(shape), column_major


def read_safetensors(path: str) -> dict[str, Header]:
    """The header of every tensor of a safetensors file.

    Raises:
        StoreError: `file_unreadable`, `file_malformed`, `file_truncated`.
    """
    start = _read(path, 8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > MAX_SAFETENSORS_HEADER_BYTES:
        raise _malformed(path, "safetensors", "its header is too long for one")
    raw = _read(path, 8 + length)
    if len(raw) < 8 + length:
        raise _truncated(path, len(raw), 8 + length)
    tensors = _json_object(path, "safetensors", raw[8:])
    headers: dict[str, Header] = {}
    for name, entry in tensors.items():
        if name != "__metadata__":
            headers[name] = _safetensor(path, name, entry, raw)
    return headers


def _safetensor(path: str, name: str, entry: object, raw: bytes) -> Header:
    if not isinstance(entry, dict):
        raise _malformed(path, "safetensors", f"tensor {name!r} is not described")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or not _is_shape(shape) or not _is_shape(offsets):
        raise _malformed(path, "safetensors", f"tensor {name!r} is not described")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _malformed(path, "safetensors", f"tensor {name!r} has no place in the file")
    known = _SAFETENSORS_DTYPES.get(dtype)
    if known and math.prod(shape) * np.dtype(known).itemsize != offsets[1] - offsets[0]:
        raise _malformed(path, "safetensors", f"tensor {name!r} does not fill its place")
    _check_length(path, len(raw) + offsets[1])
    own = f"{name}\0{dtype}\0{shape}\0{offsets}".encode()
    return Header(known or dtype, tuple(shape), False, len(raw) + offsets[0], own)


def read_zarr(path: str) -> Header:
    """The metadata of one zarr array (format 2 or 3): `path` is the array's directory.

    Raises:
        StoreError: `file_unreadable`, `file_malformed`.
    """
    for name in ("zarr.json", ".zarray"):
        file = os.path.join(path, name)
        if os.path.isfile(file):
            break
    else:
        raise _malformed(path, "zarr", "the directory holds neither zarr.json nor .zarray")
    if os.path.getsize(file) > MAX_ZARR_METADATA_BYTES:
        raise _malformed(path, "zarr", f"{name} is too large")
    raw = _read(file, MAX_ZARR_METADATA_BYTES)
    fields = _json_object(path, "zarr", raw)
    if name == "zarr.json" and fields.get("node_type") != "array":
        raise _malformed(path, "zarr", "it is a group; name an array inside it with member=")
    shape = fields.get("shape")
    dtype = fields.get("data_type" if name == "zarr.json" else "dtype")
    if not _is_shape(shape) or not isinstance(dtype, str):
        raise _malformed(path, "zarr", f"{name} lacks a shape or a plain dtype")
    try:
        numpy_dtype = np.dtype(dtype).str
    except TypeError:
        numpy_dtype = dtype
    return Header(numpy_dtype, tuple(shape), False, 0, raw)


def _json_object(path: str, kind: str, raw: bytes) -> Mapping[str, object]:
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError) as cause:
        raise _malformed(path, kind, "its header is not JSON") from cause
    if not isinstance(fields, dict):
        raise _malformed(path, kind, "its header is not a JSON object")
    return fields


def _is_shape(value: object) -> TypeGuard[Sequence[int]]:
    """A list or tuple of at most 64 sizes that fit an index."""
    return (
        isinstance(value, list | tuple)
        and len(value) <= 64
        and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**62 for n in value)
    )


def _read(path: str, length: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(length)
    except OSError as cause:
        raise StoreError(
            "file_unreadable", path=path, reason=cause.strerror or str(cause)
        ) from cause


def _check_length(path: str, expected_bytes: int) -> None:
    found_bytes = os.path.getsize(path)
    if found_bytes < expected_bytes:
        raise _truncated(path, found_bytes, expected_bytes)


def _malformed(path: str, kind: str, reason: str) -> StoreError:
    return StoreError("file_malformed", path=path, kind=kind, reason=reason)


def _truncated(path: str, found_bytes: int, expected_bytes: int) -> StoreError:
    return StoreError(
        "file_truncated", path=path, found_bytes=found_bytes, expected_bytes=expected_bytes
    )
