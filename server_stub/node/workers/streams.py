"""Inputs and outputs of work items as streams of bytes in C order.

Owns: the common shape of boxes of arrays and blobs, hashing while reading, and durable writing.
Must not: hold a whole tensor; callers bring the buffers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol

from gpugoblin.blobs.chunk import CHUNK_BYTES, blob_name, chunk_count, chunk_digest
from gpugoblin.blobs.store import BlobReader, BlobStore, BlobWriter
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import StoreError
from server_stub.node.arrays import box_bytes, open_array, read_part
from server_stub.node.work import BlobInput, Box, Input, Output, RegionInput, RegionOutput
from server_stub.node.workers.layouts import DenseLayout, Layout
from server_stub.node.workers.readahead import room_bytes

__all__ = [
    "InputStream",
    "OutputSink",
    "Sinks",
    "key_of",
    "open_input",
    "open_output",
    "read_hashed",
    "require_bytes",
]


class InputStream(Protocol):
    """An open input. A context manager."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    blob: str
    """The hash that the bytes must have; empty where nobody knows it yet."""
    path: str
    """The file that the bytes come from, for messages."""
    parallel: bool
    """Whether several threads may read at the same time."""

    def read(self, start: int, stop: int, target: memoryview) -> None: ...

    def advise(self) -> None: ...

    def close(self) -> None: ...


class _RegionStream:
    def __init__(self, source: RegionInput) -> None:
        self.dtype = source.array.dtype
        box = source.box
        self.nbytes = box_bytes(source.array, box)
        self.shape = tuple(stop - start for start, stop in zip(box.start, box.stop, strict=True))
        self.blob = source.blob
        self.path = source.array.path
        self._box = box
        self._layout: Layout = open_array(source.array)
        self.parallel = isinstance(self._layout, DenseLayout) and not box.rows

    def read(self, start: int, stop: int, target: memoryview) -> None:
        row_bytes = self.nbytes // max(1, len(self._box.rows))
        read_part(self._layout, self._box, row_bytes, start, stop, target)

    def advise(self) -> None:
        if not self._box.rows:
            self._layout.advise(self._box, room_bytes())

    def close(self) -> None:
        self._layout.close()


class _BlobStream:
    """A blob of the store; every chunk is checked when it is first needed."""

    def __init__(self, source: BlobInput, store: BlobStore) -> None:
        self.dtype, self.shape, self.nbytes = source.dtype, source.shape, source.nbytes
        self.blob = source.blob
        self.path = str(store.path(source.blob))
        self.parallel = False
        expected = math.prod(source.shape) * DTYPES[source.dtype].itemsize
        self._reader: BlobReader = store.open_read(source.blob)
        if not self._reader.nbytes == expected == source.nbytes:
            self._reader.close()
            raise StoreError(
                "blob_truncated", blob=source.blob, size=self._reader.nbytes, expected=expected
            )
        self._kept = -1
        self._buffer = memoryview(bytearray(min(CHUNK_BYTES, max(1, self.nbytes))))

    def read(self, start: int, stop: int, target: memoryview) -> None:
        at = start
        while at < stop:
            number, inside = divmod(at, CHUNK_BYTES)
            end = min(stop, (number + 1) * CHUNK_BYTES, self.nbytes)
            whole = inside == 0 and end == min((number + 1) * CHUNK_BYTES, self.nbytes)
            if whole:
                self._reader.read_chunk(number, target[at - start : end - start])
            else:
                if number != self._kept:
                    self._reader.read_chunk(number, self._buffer)
                    self._kept = number
                target[at - start : end - start] = self._buffer[inside : inside + end - at]
            at = end

    def advise(self) -> None:
        """Blobs are small against the node's memory: the system's own read-ahead does."""

    def close(self) -> None:
        self._reader.close()


def open_input(source: Input, store: BlobStore) -> InputStream:
    """Opens an input. Raises StoreError as `open_array` and `BlobStore.open_read`."""
    if isinstance(source, RegionInput):
        return _RegionStream(source)
    return _BlobStream(source, store)


def key_of(source: Input) -> str:
    """Names the bytes of an input while nobody changes its file."""
    if isinstance(source, BlobInput):
        return f"blob:{source.blob}"
    array, box = source.array, source.box
    try:
        status = os.stat(array.path)
        version = f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    except OSError:
        version = "gone"
    place = f"{array.kind}:{array.path}:{array.member}:{array.offset_bytes}"
    return f"region:{place}:{version}:{box.start}:{box.stop}:{box.rows}:{source.blob}"


def read_hashed(
    stream: InputStream,
    target: memoryview,
    each: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
) -> str:
    """Reads a whole stream into `target` and hashes it in the same pass, chunk by chunk.

    Args:
        each: called with the bounds of every chunk while it is still in the cache.
        executor: reads and hashes several chunks at a time where the stream allows it.

    Raises:
        StoreError: `array_bytes_changed` when the bytes are not those that the stream promises.
    """

    def one(number: int) -> str:
        start = number * CHUNK_BYTES
        stop = min(stream.nbytes, start + CHUNK_BYTES)
        part = target[start:stop]
        stream.read(start, stop, part)
        digest = chunk_digest(part)
        if each is not None:
            each(start, stop)
        return digest

    numbers = range(chunk_count(stream.nbytes))
    if executor is not None and stream.parallel:
        chunks = list(executor.map(one, numbers))
    else:
        chunks = [one(number) for number in numbers]
    blob = blob_name(stream.nbytes, chunks)
    require_bytes(stream, blob)
    return blob


def require_bytes(stream: InputStream, found: str) -> None:
    """Compares the hash of what was read with what the stream promises.

    Raises:
        StoreError: `array_bytes_changed`: the file was changed since the job read it first.
    """
    if stream.blob and stream.blob != found:
        raise StoreError("array_bytes_changed", path=stream.path)


class OutputSink(Protocol):
    """Where an output goes, from its first byte to its last."""

    def write(self, start: int, data: memoryview) -> None: ...

    def finish(self) -> str:
        """Makes everything durable; the blob's name, or empty for a region of an array."""
        ...

    def close(self) -> None: ...


class _RegionSink:
    def __init__(self, layout: Layout, box: Box) -> None:
        self._layout, self._box = layout, box

    def write(self, start: int, data: memoryview) -> None:
        self._layout.write(self._box, start, data)

    def finish(self) -> str:
        self._layout.sync()
        return ""

    def close(self) -> None:
        self._layout.close()


class _BlobSink:
    def __init__(self, writer: BlobWriter) -> None:
        self._writer = writer

    def write(self, start: int, data: memoryview) -> None:
        self._writer.write(data)

    def finish(self) -> str:
        return self._writer.finish().blob

    def close(self) -> None:
        self._writer.close()


def open_output(place: Output, store: BlobStore) -> OutputSink:
    """Opens an output. Raises StoreError as `open_array`, and `disk_full`."""
    if isinstance(place, RegionOutput):
        nbytes = box_bytes(place.array, place.box)
        expected = math.prod(place.shape) * DTYPES[place.dtype].itemsize
        if nbytes != expected or place.dtype != place.array.dtype:
            raise StoreError(
                "array_box",
                path=place.array.path,
                shape=list(place.array.shape),
                start=place.box.start,
                stop=place.box.stop,
            )
        return _RegionSink(open_array(place.array, writable=True), place.box)
    expected = math.prod(place.shape) * DTYPES[place.dtype].itemsize
    return _BlobSink(store.writer(expected))


class Sinks:
    """Sinks of one item, opened together and closed together."""

    def __init__(self, places: tuple[Output, ...], store: BlobStore) -> None:
        self._stack = ExitStack()
        self.sinks: list[OutputSink] = []
        try:
            for place in places:
                sink = open_output(place, store)
                self._stack.callback(sink.close)
                self.sinks.append(sink)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Sinks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
