"""Arrays on the lab node's disk: what they are, opening them, making and publishing results.

Owns: the mapping from `work.ArrayFile` to bytes. Must not: keep a whole array in memory, map files,
or decide which parts are verified.

A result is written under a temporary name in the directory where it will stand, from the first
verified tile on; the node serves verified regions from there. `publish` renames it once, when the
job is done, so whoever finds the final name finds a complete result.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from pathlib import Path
from typing import Literal

from gpugoblin.blobs.chunk import CHUNK_BYTES, BlobHasher
from gpugoblin.blobs.files import io_errors, sync_directory
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import StoreError
from gpugoblin.ids import fresh_id
from server_stub.node.work import ArrayFile, Box
from server_stub.node.workers.formats import (
    ZarrHeader,
    create_npy,
    create_raw,
    create_safetensors,
    create_zarr,
    holds_zarr_array,
    read_npy,
    read_safetensors,
    read_zarr,
)
from server_stub.node.workers.layouts import ChunkLayout, DenseLayout, Layout, fill_bytes
from server_stub.node.workers.zarr_library import ZarrLibraryLayout

__all__ = [
    "RESULT_MEMBER",
    "box_bytes",
    "box_hash",
    "create_result",
    "describe",
    "discard",
    "open_array",
    "publish",
    "read_box",
    "read_part",
    "require_place",
    "write_box",
]

RESULT_MEMBER = "output"
Kind = Literal["npy", "raw", "zarr", "safetensors"]


def _path(text: str, kind: str) -> Path:
    path = Path(text)
    if not path.exists():
        raise StoreError("array_unreadable", path=text, kind=kind, reason="there is no such file")
    if kind != "zarr" and not path.is_file():
        raise StoreError("array_unreadable", path=text, kind=kind, reason="it is no file")
    return path


def describe(
    kind: Kind,
    path: str,
    member: str = "",
    *,
    dtype: str = "",
    shape: tuple[int, ...] = (),
    offset_bytes: int = 0,
) -> ArrayFile:
    """Opens an array file and says what it is. For `raw`, dtype and shape come from the caller.

    Raises:
        StoreError: `array_unreadable`, `array_truncated`, `array_dtype`, `array_order`,
            `array_member`, `disk_failed`.
    """
    place = _path(path, kind)
    if kind == "zarr":
        header = read_zarr(place, member)
        return ArrayFile("zarr", path, header.dtype, header.shape, member)
    if kind == "npy":
        found = read_npy(place)
        dtype, shape, offset_bytes = found.dtype, found.shape, found.offset_bytes
    elif kind == "safetensors":
        found = read_safetensors(place, member)
        dtype, shape, offset_bytes = found.dtype, found.shape, found.offset_bytes
    elif dtype not in DTYPES:
        raise StoreError(
            "array_dtype", path=path, dtype=dtype or "unknown", known=", ".join(DTYPES)
        )
    _require_size(place, dtype, shape, offset_bytes)
    return ArrayFile(kind, path, dtype, shape, member, offset_bytes)


def _require_size(path: Path, dtype: str, shape: tuple[int, ...], offset_bytes: int) -> None:
    expected = math.prod(shape) * DTYPES[dtype].itemsize
    with io_errors(path):
        size = max(0, path.stat().st_size - offset_bytes)
    if size < expected:
        raise StoreError("array_truncated", path=str(path), size=size, expected=expected)


def _same(file: ArrayFile, dtype: str, shape: tuple[int, ...]) -> None:
    if (dtype, shape) != (file.dtype, file.shape):
        raise StoreError(
            "array_file_changed",
            path=file.path,
            found=f"{dtype}{list(shape)}",
            expected=f"{file.dtype}{list(file.shape)}",
        )


def open_array(file: ArrayFile, *, writable: bool = False) -> Layout:
    """Opens an array for reading boxes, or a result for writing them. Close what you get.

    Raises:
        StoreError: as `describe`, and `array_file_changed` when dtype or shape are not those of
            `file`.
    """
    place = _path(file.path, file.kind)
    item = DTYPES[file.dtype].itemsize
    if file.kind == "zarr":
        return _open_zarr(file, read_zarr(place, file.member), writable)
    found = describe(
        file.kind,
        file.path,
        file.member,
        dtype=file.dtype,
        shape=file.shape,
        offset_bytes=file.offset_bytes,
    )
    _same(file, found.dtype, found.shape)
    return DenseLayout(place, found.offset_bytes, file.shape, item, writable)


def _open_zarr(file: ArrayFile, header: ZarrHeader, writable: bool) -> Layout:
    _same(file, header.dtype, header.shape)
    root = Path(file.path) / file.member if file.member else Path(file.path)
    if not header.chunks and header.shape:
        return ZarrLibraryLayout(Path(file.path), file.member)
    dtype = DTYPES[file.dtype]
    fill = fill_bytes(dtype, header.fill)
    return ChunkLayout(root, file.shape, header.chunks, dtype.itemsize, fill, writable)


def box_bytes(file: ArrayFile, box: Box) -> int:
    """Size of a box in bytes. Raises StoreError `array_box` when it is not inside the array."""
    inside = len(box.start) == len(box.stop) == len(file.shape) and all(
        0 <= start <= stop <= extent
        for start, stop, extent in zip(box.start, box.stop, file.shape, strict=True)
    )
    if box.rows:
        inside = (
            len(box.start) == len(file.shape) >= 1
            and box.start == (0,) * len(file.shape)
            and box.stop == (len(box.rows), *file.shape[1:])
            and 0 <= min(box.rows) <= max(box.rows) < file.shape[0]
        )
    if not inside:
        raise StoreError(
            "array_box", path=file.path, shape=list(file.shape), start=box.start, stop=box.stop
        )
    count = math.prod(stop - start for start, stop in zip(box.start, box.stop, strict=True))
    return count * DTYPES[file.dtype].itemsize


def read_box(file: ArrayFile, box: Box) -> bytearray:
    """All bytes of a small box, C order. Raises as `open_array` and `box_bytes`."""
    data = bytearray(box_bytes(file, box))
    layout = open_array(file)
    try:
        row_bytes = len(data) // max(1, len(box.rows))
        read_part(layout, box, row_bytes, 0, len(data), memoryview(data))
    finally:
        layout.close()
    return data


def box_hash(file: ArrayFile, box: Box) -> str:
    """The name of the blob that a box's bytes are. Raises as `open_array` and `box_bytes`."""
    nbytes = box_bytes(file, box)
    hasher = BlobHasher()
    layout = open_array(file)
    try:
        row_bytes = nbytes // max(1, len(box.rows))
        buffer = memoryview(bytearray(min(CHUNK_BYTES, max(1, nbytes))))
        for start in range(0, nbytes, CHUNK_BYTES):
            stop = min(nbytes, start + CHUNK_BYTES)
            read_part(layout, box, row_bytes, start, stop, buffer[: stop - start])
            hasher.update(buffer[: stop - start])
    finally:
        layout.close()
    return hasher.manifest().blob


def read_part(
    layout: Layout, box: Box, row_bytes: int, start: int, stop: int, target: memoryview
) -> None:
    """Fills `target` with bytes `start` to `stop` of a box's stream.

    Args:
        row_bytes: of a row of the array, which is read where the box picks rows.
    """
    if not box.rows:
        layout.read(box, start, stop, target)
        return
    tail = box.stop[1:]
    at = start
    while at < stop:
        place, inside = divmod(at, row_bytes)
        end = min(stop, (place + 1) * row_bytes)
        row = box.rows[place]
        one = Box((row, *(0 for _ in tail)), (row + 1, *tail))
        layout.read(one, inside, inside + end - at, target[at - start : end - start])
        at = end


def write_box(file: ArrayFile, box: Box, data: bytes | bytearray | memoryview) -> None:
    """Writes a small box and syncs. Raises as `open_array` and `box_bytes`."""
    expected, view = box_bytes(file, box), memoryview(data).cast("B")
    if view.nbytes != expected:
        raise StoreError("array_truncated", path=file.path, size=view.nbytes, expected=expected)
    layout = open_array(file, writable=True)
    try:
        layout.write(box, 0, view)
        layout.sync()
    finally:
        layout.close()


def create_result(
    kind: Kind,
    path: str,
    dtype: str,
    shape: tuple[int, ...],
    *,
    tile: tuple[int, ...] = (),
    overwrite: bool = False,
) -> ArrayFile:
    """Makes an empty result under a temporary name beside `path`; the answer names that one.

    Args:
        tile: extents of a task's output, the chunks of a zarr result.

    Raises:
        StoreError: `array_exists` without `overwrite`, `array_not_replaced` with it,
            `disk_full`, `disk_failed`.
    """
    final = Path(path)
    require_place(final, kind, overwrite)
    temporary = final.with_name(f".{final.name}.{fresh_id('result')}")
    with io_errors(temporary):
        temporary.parent.mkdir(parents=True, exist_ok=True)
    member, offset = "", 0
    if kind == "npy":
        offset = create_npy(temporary, dtype, shape)
    elif kind == "raw":
        offset = create_raw(temporary, dtype, shape)
    elif kind == "safetensors":
        member = RESULT_MEMBER
        offset = create_safetensors(temporary, dtype, shape, member)
    else:
        rank = len(shape)
        chunks = (*shape[: max(0, rank - len(tile))], *tile[max(0, len(tile) - rank) :])
        create_zarr(temporary, dtype, shape, chunks if tile else shape)
    return ArrayFile(kind, str(temporary), dtype, shape, member, offset)


def require_place(final: Path, kind: str, overwrite: bool) -> None:
    """What a result replaces is an array of its own form, never a directory of other things.

    Raises:
        StoreError: `array_exists` without `overwrite`, `array_not_replaced` with it.
    """
    if not final.exists():
        return
    if not overwrite:
        raise StoreError("array_exists", path=str(final))
    if kind == "zarr":
        fits = final.is_dir() and not final.is_symlink() and holds_zarr_array(final)
    else:
        fits = final.is_file()
    if not fits:
        raise StoreError("array_not_replaced", path=str(final), kind=kind)


def publish(result: ArrayFile, path: str, *, overwrite: bool = False) -> ArrayFile:
    """Gives a finished result its name, in one step for files. Idempotent.

    Raises:
        StoreError: `array_exists`, `array_not_replaced`, `disk_failed`.
    """
    temporary, final = Path(result.path), Path(path)
    if temporary.exists():
        require_place(final, result.kind, overwrite)
        with io_errors(final):
            if result.kind == "zarr" and final.exists():
                discard(ArrayFile("zarr", path, result.dtype, result.shape))
            os.rename(temporary, final)
            sync_directory(final.parent)
    return ArrayFile(
        result.kind, path, result.dtype, result.shape, result.member, result.offset_bytes
    )


def discard(result: ArrayFile) -> None:
    """Deletes a result's file or directory; nothing when it is gone already."""
    place = Path(result.path)
    with io_errors(place):
        while place.is_dir():
            # Somebody else may be deleting it at this moment: files go from under us.
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(place)
        place.unlink(missing_ok=True)
