"""The headers of npy, safetensors and zarr files.

Owns: reading a header into dtype, shape and place of the data, and writing the header of an empty
result. Must not: read or write array elements.
"""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from gpugoblin.blobs.files import io_errors, require_space, sync_directory
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import StoreError
from gpugoblin.units import MIB

__all__ = [
    "Header",
    "ZarrHeader",
    "create_npy",
    "create_raw",
    "create_safetensors",
    "create_zarr",
    "dtype_name",
    "holds_zarr_array",
    "read_npy",
    "read_safetensors",
    "read_zarr",
]

_SAFETENSORS: Final = {
    "float32": "F32",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "uint8": "U8",
    "float16": "F16",
    "bfloat16": "BF16",
    "float64": "F64",
}
_MAX_HEADER_BYTES: Final = 8 * MIB
"""Of JSON. Some 80,000 tensors in one safetensors file; parsed, it takes twenty times as much."""
_MAX_RANK: Final = 32
"""What NumPy can have."""
_MAX_NPY_HEADER_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Header:
    """Where a dense array lies in its file."""

    dtype: str
    shape: tuple[int, ...]
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class ZarrHeader:
    """A zarr array. `chunks` only where its chunk files can be read directly, else empty."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    fill: object


def _unreadable(path: Path, kind: str, reason: object) -> StoreError:
    return StoreError("array_unreadable", path=str(path), kind=kind, reason=str(reason))


def dtype_name(path: Path, dtype: np.dtype[Any]) -> str:
    """The catalog's name of a dtype. Raises StoreError `array_dtype`."""
    for name, known in DTYPES.items():
        if dtype == known:
            return name
    raise StoreError("array_dtype", path=str(path), dtype=str(dtype), known=", ".join(DTYPES))


def read_npy(path: Path) -> Header:
    """Raises StoreError `array_unreadable`, `array_dtype`, `array_order`, `disk_failed`."""
    with io_errors(path), path.open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            _require_short_header(path, file, version)
            reader = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = reader(file)
        except (ValueError, EOFError) as cause:
            raise _unreadable(path, "npy", cause) from cause
        offset = file.tell()
    name = dtype_name(path, dtype)
    if fortran and sum(extent > 1 for extent in shape) > 1:
        raise StoreError("array_order", path=str(path))
    return Header(name, tuple(int(extent) for extent in shape), offset)


def _require_short_header(path: Path, file: BinaryIO, version: tuple[int, int]) -> None:
    """NumPy reads a header of up to 4 GiB before it looks at its size."""
    here = file.tell()
    size = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    file.seek(here)
    if size > _MAX_NPY_HEADER_BYTES:
        raise _unreadable(path, "npy", "the size of its header is not plausible")


def _json(path: Path, kind: str, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as cause:
        raise _unreadable(path, kind, cause) from cause
    if not isinstance(value, dict):
        raise _unreadable(path, kind, "the header is no JSON object")
    return value


def _json_file(path: Path, meta: Path) -> dict[str, Any]:
    with meta.open("rb") as file:
        data = file.read(_MAX_HEADER_BYTES + 1)
    if len(data) > _MAX_HEADER_BYTES:
        raise _unreadable(path, "zarr", f"{meta.name} is larger than {_MAX_HEADER_BYTES} bytes")
    return _json(path, "zarr", data)


def _extents(given: Any) -> tuple[int, ...]:
    """A shape of a header. Raises ValueError: numbers whose product would take for ever."""
    if not isinstance(given, list) or len(given) > _MAX_RANK:
        raise ValueError("a shape is no list of at most 32 numbers")
    shape = tuple(int(extent) for extent in given)
    if any(not 0 <= extent < 1 << 62 for extent in shape):
        raise ValueError("a shape has numbers that no array has")
    return shape


def read_safetensors(path: Path, member: str) -> Header:
    """Raises StoreError `array_unreadable`, `array_member`, `array_dtype`, `disk_failed`."""
    with io_errors(path), path.open("rb") as file:
        start = file.read(8)
        size = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        file_bytes = os.fstat(file.fileno()).st_size
        if not 0 <= size <= min(_MAX_HEADER_BYTES, file_bytes - 8):
            raise _unreadable(path, "safetensors", "the size of its header is not plausible")
        header = _json(path, "safetensors", file.read(size))
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if not member and len(tensors) == 1:
        member = next(iter(tensors))
    if member not in tensors:
        known = ", ".join(sorted(tensors)[:20]) or "none"
        raise StoreError("array_member", path=str(path), member=member, known=known)
    entry = tensors[member]
    try:
        shape = _extents(entry["shape"])
        begin, end = (int(at) for at in entry["data_offsets"])
        tag = str(entry["dtype"])
    except (KeyError, TypeError, ValueError) as cause:
        raise _unreadable(path, "safetensors", f"the entry {member!r} is malformed") from cause
    names = {tag: name for name, tag in _SAFETENSORS.items()}
    if tag not in names:
        raise StoreError("array_dtype", path=str(path), dtype=tag, known=", ".join(DTYPES))
    expected = math.prod(shape) * DTYPES[names[tag]].itemsize
    if begin < 0 or end - begin != expected or any(extent < 0 for extent in shape):
        raise _unreadable(path, "safetensors", f"the entry {member!r} has a wrong size")
    return Header(names[tag], shape, 8 + size + begin)


def read_zarr(path: Path, member: str) -> ZarrHeader:
    """A zarr array of version 2 or 3, a directory.

    Raises:
        StoreError: `array_unreadable`, `array_member`, `array_dtype`.
    """
    root = path / member if member else path
    if not root.is_dir():
        code_path = f"{path} ({member})" if member else str(path)
        raise _unreadable(Path(code_path), "zarr", "there is no such directory")
    meta = root / "zarr.json"
    if meta.is_file():
        with io_errors(meta):
            header = _json_file(path, meta)
        if header.get("node_type") == "group":
            known = ", ".join(sorted(p.name for p in root.iterdir() if p.is_dir())[:20]) or "none"
            raise StoreError("array_member", path=str(path), member=member, known=known)
        return _zarr_3(path, header)
    if (root / ".zarray").is_file():
        return _zarr_2(path, root)
    if (root / ".zgroup").is_file():
        known = ", ".join(sorted(p.name for p in root.iterdir() if p.is_dir())[:20]) or "none"
        raise StoreError("array_member", path=str(path), member=member, known=known)
    raise _unreadable(path, "zarr", "it has neither zarr.json nor .zarray")


def holds_zarr_array(path: Path) -> bool:
    """Whether a directory is one zarr array: not a group, and nothing else."""
    try:
        return bool(read_zarr(path, "").dtype)
    except StoreError as error:
        return error.code == "array_dtype"  # an array all the same


def _zarr_3(path: Path, header: Mapping[str, Any]) -> ZarrHeader:
    try:
        shape = _extents(header["shape"])
        tag = header["data_type"]
        dtype = dtype_name(path, np.dtype(tag if isinstance(tag, str) else "V1"))
        grid = header["chunk_grid"]
        chunks = _extents(grid["configuration"]["chunk_shape"])
        codecs = header["codecs"]
        encoding = header.get("chunk_key_encoding", {"name": "default"})
        little = [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "bytes"},
            "bytes",
        ]
        direct = (
            grid["name"] == "regular"
            and len(codecs) == 1
            and (codecs[0] in little[:1] or (dtype == "bool" and codecs[0] in little))
            and encoding.get("name") == "default"
            and encoding.get("configuration", {}).get("separator", "/") == "/"
            and not header.get("storage_transformers")
            and len(chunks) == len(shape)
            and all(extent > 0 for extent in chunks)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise _unreadable(path, "zarr", f"zarr.json is malformed at {cause}") from cause
    return ZarrHeader(dtype, shape, chunks if direct else (), header.get("fill_value"))


def _zarr_2(path: Path, root: Path) -> ZarrHeader:
    with io_errors(root):
        header = _json_file(path, root / ".zarray")
    try:
        shape = _extents(header["shape"])
        dtype = np.dtype(header["dtype"])
    except (KeyError, TypeError, ValueError) as cause:
        raise _unreadable(path, "zarr", f".zarray is malformed at {cause}") from cause
    return ZarrHeader(dtype_name(path, dtype), shape, (), header.get("fill_value"))


def _reserve(descriptor: int, nbytes: int) -> None:
    """Takes the room of a file on the disk in large pieces, where the file system can.

    Tiles are written and synced in any order; without this a file of 1 GiB ends in some 14,000
    pieces, and deleting it took 40 s on a disk that is told of each freed piece. The C library's
    `posix_fallocate` would write zeros where the file system cannot, which is worse than nothing.

    Raises:
        OSError: no room is left.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        return
    offset = ctypes.c_int64
    while libc.fallocate(ctypes.c_int(descriptor), 0, offset(0), offset(nbytes)) != 0:
        number = ctypes.get_errno()
        if number in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def _create(path: Path, header: bytes, nbytes: int) -> None:
    """A file of its full size: tiles are written in any order, what is not there reads as zeros."""
    require_space(path, len(header) + nbytes)
    with io_errors(path, nbytes):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o644)
        try:
            os.write(descriptor, header)
            os.ftruncate(descriptor, len(header) + nbytes)
            if nbytes:
                _reserve(descriptor, len(header) + nbytes)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(path.parent)


def create_npy(path: Path, dtype: str, shape: tuple[int, ...]) -> int:
    """Writes the header of an empty npy file; returns the offset of the data."""
    from io import BytesIO

    buffer = BytesIO()
    described = {
        "descr": np.lib.format.dtype_to_descr(DTYPES[dtype]),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(buffer, described)
    header = buffer.getvalue()
    _create(path, header, math.prod(shape) * DTYPES[dtype].itemsize)
    return len(header)


def create_raw(path: Path, dtype: str, shape: tuple[int, ...]) -> int:
    """An empty file of the array's size; returns 0."""
    _create(path, b"", math.prod(shape) * DTYPES[dtype].itemsize)
    return 0


def create_safetensors(path: Path, dtype: str, shape: tuple[int, ...], member: str) -> int:
    """Writes the header of a container of one tensor; returns the offset of the data."""
    nbytes = math.prod(shape) * DTYPES[dtype].itemsize
    entry = {"dtype": _SAFETENSORS[dtype], "shape": list(shape), "data_offsets": [0, nbytes]}
    text = json.dumps({member: entry}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    header = struct.pack("<Q", len(text)) + text
    _create(path, header, nbytes)
    return len(header)


def create_zarr(path: Path, dtype: str, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """Writes the metadata of an empty zarr array of version 3 with uncompressed chunk files."""
    require_space(path, math.prod(shape) * DTYPES[dtype].itemsize)
    codec: dict[str, object] = {"name": "bytes"}
    if DTYPES[dtype].itemsize > 1:
        codec["configuration"] = {"endian": "little"}
    header = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [max(1, extent) for extent in chunks]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": False if dtype == "bool" else 0.0 if DTYPES[dtype].kind == "f" else 0,
        "codecs": [codec],
        "attributes": {},
        "storage_transformers": [],
    }
    with io_errors(path):
        path.mkdir(mode=0o755)
        descriptor = os.open(
            path / "zarr.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644
        )
        try:
            os.write(descriptor, json.dumps(header, indent=2).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(path)
        sync_directory(path.parent)
