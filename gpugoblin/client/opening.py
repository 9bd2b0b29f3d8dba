"""`gg.open` and `gg.array`: lazy arrays from files and from numbers in this process.

Owns: turning a path, a memmap or an ndarray into a source. Nothing is read but headers. Must not:
speak to a node, round a number, or copy an array.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, Final

import numpy as np

from gpugoblin.capture.array import Array, from_source
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.dtypes import catalog_dtype
from gpugoblin.capture.functions import permute_dims
from gpugoblin.capture.hashing import fingerprint_directory, fingerprint_file
from gpugoblin.capture.source import FileSource
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.client.headers import Header, read_npy, read_safetensors, read_zarr
from gpugoblin.errors import CaptureError, StoreError

__all__ = ["open_array", "refresh"]

_MEMBERS_SHOWN: Final = 8


def open_array(path: str | os.PathLike[str] | np.memmap[Any, Any], *, member: str = "") -> Array:
    """A lazy array over a file; nothing but its header is read.

    Args:
        path: a .npy, .zarr or .safetensors file (told apart by content), or a `numpy.memmap`.
        member: which tensor of a safetensors file, or which array inside a zarr group.

    Returns:
        An array of the file's shape; its dtype is one of `catalog.spec.DTYPES`.

    Raises:
        StoreError: `file_unreadable`, `file_malformed`, `file_truncated`, `file_kind_unknown`,
            `member_missing`, `memmap_layout`.
        CaptureError: `dtype_refused` for any other dtype, with the conversion that helps.
    """
    place = caller()
    if isinstance(path, np.memmap):
        return _open_memmap(path, place)
    if not isinstance(path, str | os.PathLike):
        raise CaptureError(
            "not_an_array",
            line=place,
            subject="the argument of gg.open",
            kind=type(path).__name__,
            fix="Give a path or a numpy.memmap; for numbers in memory use gg.array.",
        )
    real = os.path.realpath(path)
    if not os.path.exists(real):
        raise StoreError("file_unreadable", path=real, reason="there is no such file")
    try:
        return _open_path(real, member, place)
    except OSError as cause:
        if isinstance(cause, StoreError):
            raise
        raise StoreError(
            "file_unreadable", path=real, reason=cause.strerror or str(cause)
        ) from cause


def _open_path(path: str, member: str, place: Place) -> Array:
    if os.path.isdir(path):
        inside = os.path.realpath(os.path.join(path, member)) if member else path
        if os.path.commonpath((inside, path)) != path:
            raise StoreError("member_missing", path=path, member=member, members="nothing outside")
        header = read_zarr(inside)
        fingerprint = fingerprint_directory("zarr", inside, header.raw)
        spec = _spec(header, inside, place)
        return from_source(FileSource("zarr", inside, spec, fingerprint, place=place))
    with open(path, "rb") as file:
        start = file.read(9)
    if start.startswith(b"\x93NUMPY"):
        return _from_npy(path, place)
    if start[8:9] == b"{":
        return _from_safetensors(path, member, place)
    raise StoreError("file_kind_unknown", path=path)


def _from_npy(path: str, place: Place) -> Array:
    header = read_npy(path)
    fingerprint = fingerprint_file("npy", path, header.raw)
    spec = _spec(header, path, place)
    if not header.column_major:
        return from_source(FileSource("npy", path, spec, fingerprint, place=place))
    # Column-major bytes of a shape are row-major bytes of the shape turned around.
    turned = TensorSpec(spec.dtype, spec.shape[::-1])
    source = FileSource(
        "raw", path, turned, fingerprint, offset_bytes=header.offset_bytes, place=place
    )
    return permute_dims(from_source(source), tuple(range(spec.rank))[::-1])


def _from_safetensors(path: str, member: str, place: Place) -> Array:
    headers = read_safetensors(path)
    if not member and len(headers) == 1:
        member = next(iter(headers))
    if member not in headers:
        names = sorted(headers)
        more = ", ..." if len(names) > _MEMBERS_SHOWN else ""
        raise StoreError(
            "member_missing",
            path=path,
            member=member,
            members=(", ".join(names[:_MEMBERS_SHOWN]) + more) or "none",
        )
    header = headers[member]
    spec = _spec(header, f"{path}#{member}", place)
    fingerprint = fingerprint_file("safetensors", path, header.raw)
    return from_source(
        FileSource("safetensors", path, spec, fingerprint, member, header.offset_bytes, place=place)
    )


def _open_memmap(array: np.memmap[Any, Any], place: Place) -> Array:
    path = array.filename
    base = array._mmap  # type: ignore[attr-defined]  # NumPy has no public name for it
    if path is None or base is None:
        raise CaptureError(
            "not_an_array",
            line=place,
            subject="the argument of gg.open",
            kind="a memmap without a file",
            fix="Use gg.array for numbers in memory.",
        )
    path = os.path.realpath(path)
    dtype = catalog_dtype(array.dtype, place, f"the memmap of {path}", stored=True)
    if array.flags.writeable:
        array.flush()  # sets the time of change, which is part of the file's name
    order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else ""
    if not order:
        raise StoreError("memmap_layout", path=path, shape=array.shape, strides=array.strides)
    # A view keeps its parent's `offset`, so the place in the file comes from the addresses.
    whole = np.frombuffer(base, np.uint8)
    start_bytes = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    offset_bytes = start_bytes + _address(array) - _address(whole)
    del whole
    shape = tuple(array.shape) if order == "C" else tuple(array.shape)[::-1]
    spec = TensorSpec(dtype, shape)
    name = f"{dtype}\0{shape}\0{offset_bytes}".encode()
    fingerprint = fingerprint_file("raw", path, name)
    lazy = from_source(
        FileSource("raw", path, spec, fingerprint, offset_bytes=offset_bytes, place=place)
    )
    return lazy if order == "C" else permute_dims(lazy, tuple(range(len(shape)))[::-1])


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _spec(header: Header, name: str, place: Place) -> TensorSpec:
    return TensorSpec(catalog_dtype(header.dtype, place, name, stored=True), header.shape)


def refresh(source: FileSource) -> None:
    """Makes sure that a file is still the one that was opened.

    Raises:
        StoreError: `file_changed`, or what opening it would raise.
    """
    try:
        now = _fingerprint_now(source)
    except OSError as cause:
        if isinstance(cause, StoreError):
            raise
        raise StoreError(
            "file_unreadable", path=source.path, reason=cause.strerror or str(cause)
        ) from cause
    if now != source.fingerprint:
        raise StoreError("file_changed", path=source.path)


def _fingerprint_now(source: FileSource) -> str:
    if source.kind == "zarr":
        return fingerprint_directory("zarr", source.path, read_zarr(source.path).raw)
    if source.kind == "safetensors":
        header = read_safetensors(source.path).get(source.member)
        return fingerprint_file("safetensors", source.path, header.raw if header else b"")
    with open(source.path, "rb") as file:
        is_npy = file.read(6) == b"\x93NUMPY"
    if is_npy:
        npy = fingerprint_file("npy", source.path, read_npy(source.path).raw)
        if source.kind == "npy" or npy == source.fingerprint:
            return npy
    name = f"{source.spec.dtype}\0{source.spec.shape}\0{source.offset_bytes}".encode()
    return fingerprint_file("raw", source.path, name)
