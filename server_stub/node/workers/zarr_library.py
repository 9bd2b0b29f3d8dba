"""Zarr arrays that need the library: version 2, compressed, sharded. Read only.

Owns: the one import of `zarr`. Reads in bands of whole chunk rows; what a band holds beside the
caller's buffer is bounded by the array's own chunks.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpugoblin.errors import StoreError
from server_stub.node.work import Box
from server_stub.node.workers.layouts import BAND_BYTES

__all__ = ["ZarrLibraryLayout"]

MAX_CHUNK_BYTES: Final = 1 << 30
"""A chunk is unpacked as a whole: a header of a few bytes must not ask for all memory."""


class ZarrLibraryLayout:
    """A zarr array behind the library."""

    def __init__(self, path: Path, member: str) -> None:
        import zarr
        from zarr.errors import BaseZarrError

        self._path = path
        self._errors: tuple[type[Exception], ...] = (
            OSError, ValueError, RuntimeError, KeyError, TypeError, BaseZarrError,
        )  # fmt: skip
        try:
            self._array: Any = zarr.open_array(str(path / member if member else path), mode="r")
        except self._errors as cause:
            raise self._unreadable(cause) from cause
        chunk_bytes = math.prod(self._array.chunks) * int(self._array.dtype.itemsize)
        if chunk_bytes > MAX_CHUNK_BYTES:
            reason = f"a chunk holds {chunk_bytes} bytes, at most {MAX_CHUNK_BYTES} are unpacked"
            raise self._unreadable(reason)

    def _unreadable(self, cause: object) -> StoreError:
        return StoreError("array_unreadable", path=str(self._path), kind="zarr", reason=str(cause))

    def read(self, box: Box, start: int, stop: int, target: memoryview) -> None:
        extents = [end - begin for begin, end in zip(box.start, box.stop, strict=True)]
        item = int(self._array.dtype.itemsize)
        if stop <= start:
            return
        if not extents:
            self._copy(self._take(()), 0, start, stop, target)
            return
        slab = math.prod(extents[1:]) * item
        # Whole rows of chunks at a time, so that no chunk is decoded twice, but bounded.
        height = max(1, BAND_BYTES // max(1, slab))
        chunk = int(self._array.chunks[0])
        row, last = start // slab, -(-stop // slab)
        while row < last:
            inside = (box.start[0] + row) % chunk
            upto = min(last, row + max(height, chunk - inside if chunk <= 4 * height else 0))
            place = (
                slice(box.start[0] + row, box.start[0] + upto),
                *(slice(b, e) for b, e in zip(box.start[1:], box.stop[1:], strict=True)),
            )
            self._copy(self._take(place), row * slab, start, stop, target)
            row = upto

    def _take(self, place: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        try:
            return np.ascontiguousarray(self._array[place])
        except self._errors as cause:
            raise self._unreadable(cause) from cause

    @staticmethod
    def _copy(
        part: np.ndarray[Any, Any], at: int, start: int, stop: int, target: memoryview
    ) -> None:
        data = part.reshape(-1).view(np.uint8)
        begin, end = max(start, at), min(stop, at + data.nbytes)
        target[begin - start : end - start] = data[begin - at : end - at].data

    def write(self, box: Box, start: int, data: memoryview) -> None:
        raise StoreError(
            "array_unreadable",
            path=str(self._path),
            kind="a result",
            reason="only uncompressed zarr arrays of version 3 are written",
        )

    def advise(self, box: Box, room_bytes: int = 0) -> None:
        """Nothing: the library reads its files itself."""

    def sync(self) -> None:
        """Nothing was written."""

    def close(self) -> None:
        """The library holds no descriptor between reads."""
