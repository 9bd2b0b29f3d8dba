"""Where the bytes of a box lie in files: dense arrays, and chunk files of zarr.

Owns: reading and writing byte ranges of a box. Must not: know a file format's header, map files
(mapped pages count as resident memory), or hold more than `BAND_BYTES` beside the caller's buffer.

A box is seen as the stream of its bytes in C order. Callers read and write any range of that
stream, so hashing, checking and writing go by in pieces of their own choice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from gpugoblin.blobs.files import io_errors, pread_exact, pwrite_all, sync_directory
from gpugoblin.errors import StoreError
from gpugoblin.units import KIB, MIB
from server_stub.node.work import Box

__all__ = ["BAND_BYTES", "ChunkLayout", "DenseLayout", "Layout", "fill_bytes"]

BAND_BYTES: Final = 4 * MIB
_SHORT_RUN: Final = KIB
_AHEAD_BYTES: Final = 8 * MIB
_PANELS: Final = 8
"""A box that is a smaller part of its rows than this is read ahead by itself."""


@dataclass(frozen=True, slots=True)
class _Run:
    """`nbytes` bytes of the stream from `at` on, at `offset` of a file."""

    offset: int
    at: int
    nbytes: int


class Layout(Protocol):
    """An open array. Close it."""

    def read(self, box: Box, start: int, stop: int, target: memoryview) -> None:
        """Fills `target` with bytes `start` to `stop` of the box's stream."""
        ...

    def write(self, box: Box, start: int, data: memoryview) -> None:
        """Writes `data` over the box's stream from byte `start` on."""
        ...

    def advise(self, box: Box, room_bytes: int = 0) -> None:
        """Tells the system that this box is read soon.

        Args:
            room_bytes: what the system's own cache may take for it; what lies between the box's
                parts is then read, too, because its neighbors come next.
        """
        ...

    def sync(self) -> None:
        """Makes everything written durable."""
        ...

    def close(self) -> None: ...


def _strides(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    strides, step = [], item
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _box_shape(box: Box) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in zip(box.start, box.stop, strict=True))


class _Walk:
    """The runs of a box in one C-order array of `shape`: equal pieces that are contiguous there."""

    def __init__(self, box: Box, shape: tuple[int, ...], item: int) -> None:
        extents = _box_shape(box)
        strides = _strides(shape, item)
        # The run takes in axes from the last one forward while they are whole.
        axis = len(extents)
        run = item
        while axis > 0:
            axis -= 1
            run *= extents[axis]
            if extents[axis] != shape[axis]:
                break
        self.run_bytes = run
        self.outer = extents[:axis]
        self.count = math.prod(self.outer) if run else 0
        self._strides = strides[:axis]
        self.base = sum(start * stride for start, stride in zip(box.start, strides, strict=True))

    def offsets(self, first: int, last: int) -> list[int]:
        """Byte offsets of the runs `first` to `last`, relative to the array's first byte."""
        numbers = np.arange(first, last, dtype=np.int64)
        offsets = np.full(numbers.shape, self.base, np.int64)
        for extent, stride in zip(reversed(self.outer), reversed(self._strides), strict=True):
            numbers, at = np.divmod(numbers, extent)
            offsets += at * stride
        result: list[int] = offsets.tolist()
        return result

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """`(offset, position in the stream, bytes)` that cover `start` to `stop`."""
        if stop <= start:
            return
        size = self.run_bytes
        first, last = start // size, -(-stop // size)
        for batch in range(first, last, 4096):
            upto = min(last, batch + 4096)
            for number, offset in enumerate(self.offsets(batch, upto), batch):
                begin, end = max(start, number * size), min(stop, (number + 1) * size)
                yield offset + begin - number * size, begin, end - begin


@dataclass(slots=True)
class DenseLayout:
    """One file that holds the array in C order from `offset` on.

    Args:
        writable: whether the file is opened for writing, too.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    item: int
    writable: bool = False
    _descriptor: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        flags = (os.O_RDWR if self.writable else os.O_RDONLY) | os.O_CLOEXEC
        with io_errors(self.path):
            self._descriptor = os.open(self.path, flags)

    def read(self, box: Box, start: int, stop: int, target: memoryview) -> None:
        walk = _Walk(box, self.shape, self.item)
        with io_errors(self.path):
            if (
                walk.run_bytes < _SHORT_RUN
                and walk.count > 1
                and self._read_bands(box, start, stop, target)
            ):
                return
            for offset, at, size in walk.runs(start, stop):
                self._fill(target[at - start : at - start + size], offset)

    def _fill(self, part: memoryview, offset: int) -> None:
        got = pread_exact(self._descriptor, part, self.offset + offset)
        if got != part.nbytes:
            expected = self.offset + math.prod(self.shape) * self.item
            size = os.fstat(self._descriptor).st_size
            raise StoreError("array_truncated", path=str(self.path), size=size, expected=expected)

    def _read_bands(self, box: Box, start: int, stop: int, target: memoryview) -> bool:
        """Short runs: reads whole rows around them, band by band, and packs them in memory."""
        extents = _box_shape(box)
        if len(extents) < 2:
            return False
        row_bytes = self.shape[-1] * self.item
        need_bytes = extents[-1] * self.item
        if row_bytes > BAND_BYTES or row_bytes > 512 * need_bytes:
            return False
        # Rows of the box along its second-last axis are contiguous rows of the file.
        height = extents[-2]
        strides = _strides(self.shape, self.item)
        band = max(1, BAND_BYTES // row_bytes)
        buffer = memoryview(bytearray(min(band, height) * row_bytes))
        first, last = start // need_bytes, -(-stop // need_bytes)
        row = first
        while row < last:
            outer, inside = divmod(row, height)
            count = min(band, height - inside, last - row)
            base = sum(at * stride for at, stride in zip(box.start[:-2], strides, strict=False))
            for axis in range(len(extents) - 3, -1, -1):
                outer, at = divmod(outer, extents[axis])
                base += at * strides[axis]
            base += (box.start[-2] + inside) * row_bytes
            part = buffer[: count * row_bytes]
            self._fill(part, base)
            raw = np.frombuffer(part, np.uint8).reshape(count, row_bytes)
            left = box.start[-1] * self.item
            packed = raw[:, left : left + need_bytes].reshape(-1)
            begin = max(start, row * need_bytes)
            end = min(stop, (row + count) * need_bytes)
            skip = begin - row * need_bytes
            target[begin - start : end - start] = packed[skip : skip + end - begin].data
            row += count
        return True

    def write(self, box: Box, start: int, data: memoryview) -> None:
        walk = _Walk(box, self.shape, self.item)
        with io_errors(self.path, data.nbytes):
            for offset, at, size in walk.runs(start, start + data.nbytes):
                pwrite_all(
                    self._descriptor, data[at - start : at - start + size], self.offset + offset
                )

    def advise(self, box: Box, room_bytes: int = 0) -> None:
        walk = _Walk(box, self.shape, self.item)
        total = walk.count * walk.run_bytes
        if not total or walk.run_bytes < 4 * KIB or walk.count > 262_144:
            return
        first, last = walk.offsets(0, 1)[0], walk.offsets(walk.count - 1, walk.count)[0]
        span = last + walk.run_bytes - first
        # A disk reads a panel's rows of 16 KiB at a third of its speed, and each is a request of
        # its own. So all panels are read in one go, where the system has room to keep them.
        if span <= min(room_bytes, _PANELS * total):
            for start in range(first, first + span, _AHEAD_BYTES):
                self._will_need(start, min(_AHEAD_BYTES, first + span - start))
            return
        for offset, _, size in walk.runs(0, total):
            self._will_need(offset, size)

    def _will_need(self, offset: int, size: int) -> None:
        os.posix_fadvise(self._descriptor, self.offset + offset, size, os.POSIX_FADV_WILLNEED)

    def sync(self) -> None:
        with io_errors(self.path):
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class ChunkLayout:
    """Uncompressed chunk files of zarr version 3 (`c/0/1`), each a whole chunk in C order.

    Args:
        fill: the bytes of one element of a chunk that is not there.
    """

    def __init__(
        self,
        root: Path,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        item: int,
        fill: bytes,
        writable: bool = False,
    ) -> None:
        self._root = root
        self._shape = shape
        self._chunks = chunks
        self._item = item
        self._fill = fill
        self._writable = writable
        self._chunk_bytes = math.prod(chunks) * item
        self._touched: dict[tuple[int, ...], int] = {}
        self._fresh: set[Path] = set()

    def _pieces(self, box: Box, start: int, stop: int) -> Iterator[tuple[tuple[int, ...], _Run]]:
        """The runs of the stream, cut at chunk borders along the last axis."""
        extents = _box_shape(box)
        if not extents:
            yield (), _Run(0, start, stop - start)
            return
        row_bytes = extents[-1] * self._item
        if stop <= start or row_bytes == 0:
            return
        strides = _strides(self._chunks, self._item)
        for row in range(start // row_bytes, -(-stop // row_bytes)):
            index, rest = [], row
            for axis in range(len(extents) - 2, -1, -1):
                rest, at = divmod(rest, extents[axis])
                index.append(box.start[axis] + at)
            index.reverse()
            key = [at // size for at, size in zip(index, self._chunks, strict=False)]
            base = sum(
                at % size * stride
                for at, size, stride in zip(index, self._chunks, strides, strict=False)
            )
            column = box.start[-1]
            while column < box.stop[-1]:
                chunk, inside = divmod(column, self._chunks[-1])
                width = min(box.stop[-1] - column, self._chunks[-1] - inside)
                at = row * row_bytes + (column - box.start[-1]) * self._item
                begin, end = max(at, start), min(at + width * self._item, stop)
                if begin < end:
                    offset = base + inside * self._item + begin - at
                    yield (*key, chunk), _Run(offset, begin, end - begin)
                column += width

    def _path(self, key: tuple[int, ...]) -> Path:
        return self._root.joinpath("c", *map(str, key))

    def _descriptor(self, key: tuple[int, ...]) -> int | None:
        known = self._touched.get(key)
        if known is not None:
            return known
        path = self._path(key)
        if self._writable:
            missing = [p for p in (path.parent, *path.parent.parents) if not p.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fresh.update(p.parent for p in missing)
            if not path.exists():
                self._fresh.add(path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if os.fstat(descriptor).st_size < self._chunk_bytes:
                os.ftruncate(descriptor, self._chunk_bytes)
        else:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
        if len(self._touched) >= 64 and not self._writable:
            _, oldest = self._touched.popitem()
            os.close(oldest)
        self._touched[key] = descriptor
        return descriptor

    def read(self, box: Box, start: int, stop: int, target: memoryview) -> None:
        with io_errors(self._root):
            for key, run in self._pieces(box, start, stop):
                part = target[run.at - start : run.at - start + run.nbytes]
                descriptor = self._descriptor(key)
                if descriptor is None:
                    part[:] = self._fill * (run.nbytes // self._item)
                    continue
                if pread_exact(descriptor, part, run.offset) != run.nbytes:
                    raise StoreError(
                        "array_truncated",
                        path=str(self._path(key)),
                        size=os.fstat(descriptor).st_size,
                        expected=self._chunk_bytes,
                    )

    def write(self, box: Box, start: int, data: memoryview) -> None:
        with io_errors(self._root, data.nbytes):
            for key, run in self._pieces(box, start, start + data.nbytes):
                descriptor = self._descriptor(key)
                if descriptor is not None:
                    part = data[run.at - start : run.at - start + run.nbytes]
                    pwrite_all(descriptor, part, run.offset)

    def advise(self, box: Box, room_bytes: int = 0) -> None:
        nbytes = math.prod(_box_shape(box)) * self._item
        for key in {key for key, _ in self._pieces(box, 0, nbytes)}:
            descriptor = self._descriptor(key)
            if descriptor is not None:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)

    def sync(self) -> None:
        with io_errors(self._root):
            for descriptor in self._touched.values():
                os.fdatasync(descriptor)
            for directory in self._fresh:
                sync_directory(directory)
            self._fresh.clear()
        if self._writable:
            self.close()

    def close(self) -> None:
        for descriptor in self._touched.values():
            os.close(descriptor)
        self._touched.clear()


def fill_bytes(dtype: np.dtype[Any], value: object) -> bytes:
    """The bytes of one element of a fill value as zarr writes it in JSON."""
    if isinstance(value, str):
        value = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}.get(value, 0)
    return np.array(value if value is not None else 0).astype(dtype).tobytes()
