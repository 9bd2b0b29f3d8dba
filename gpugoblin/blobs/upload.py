"""An upload that goes on after any crash.

Owns: one file of `parts/`, filled from the front. Must not: name or judge the bytes: the store
hashes all of them when the upload is complete.

Bytes count as stored once they are in the file and synced. A process killed in the middle of a
write leaves a longer file than it answered for, which is sound: those bytes came in order, and the
hash at the end judges them. A machine that loses power may leave a hole of zeros; the hash at the
end finds that, too, and the upload starts again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpugoblin.blobs.files import io_errors, pwrite_all, sync_directory
from gpugoblin.errors import StoreError
from gpugoblin.hashing import Buffer

__all__ = ["Upload", "UploadProgress"]


@dataclass(frozen=True, slots=True)
class UploadProgress:
    """`stored_bytes` of `expected_bytes` are on disk."""

    stored_bytes: int
    expected_bytes: int

    @property
    def complete(self) -> bool:
        return self.stored_bytes == self.expected_bytes


class Upload:
    """One upload: append at the stored size, synced before the answer.

    Args:
        part: the file. expected_bytes: the announced size.
    """

    def __init__(self, part: Path, expected_bytes: int) -> None:
        self._part = part
        self._expected = expected_bytes
        self._open_file: int | None = None

    def progress(self) -> UploadProgress:
        """How far the upload is. Raises StoreError `upload_too_long`."""
        try:
            size = self._part.stat().st_size
        except FileNotFoundError:
            size = 0
        if size > self._expected:
            raise StoreError("upload_too_long", size=size, expected=self._expected)
        return UploadProgress(size, self._expected)

    def write(self, offset: int, data: Buffer, *, sync: bool = True) -> UploadProgress:
        """Appends `data`; `offset` must be what is stored. With `sync` False call `sync()` later.

        Raises:
            StoreError: `upload_offset`, `upload_too_long`, `disk_full`, `disk_failed`.
        """
        stored = self.progress().stored_bytes
        size = memoryview(data).nbytes
        if offset != stored:
            raise StoreError("upload_offset", offset=offset, stored_bytes=stored)
        if stored + size > self._expected:
            raise StoreError("upload_too_long", size=stored + size, expected=self._expected)
        descriptor = self._descriptor()
        with io_errors(self._part, size):
            pwrite_all(descriptor, data, stored)
            if sync:
                os.fdatasync(descriptor)
        return UploadProgress(stored + size, self._expected)

    def sync(self) -> UploadProgress:
        """Makes everything written so far durable."""
        with io_errors(self._part):
            os.fdatasync(self._descriptor())
        return self.progress()

    def complete_path(self) -> Path:
        """The synced file of a complete upload. Raises StoreError `upload_incomplete`."""
        progress = self.progress()
        if not progress.complete:
            raise StoreError(
                "upload_incomplete",
                stored_bytes=progress.stored_bytes,
                expected=progress.expected_bytes,
            )
        self.sync()
        self.close()
        return self._part

    def close(self) -> None:
        """Closes the file; the upload stays."""
        if self._open_file is not None:
            os.close(self._open_file)
            self._open_file = None

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _descriptor(self) -> int:
        if self._open_file is None:
            with io_errors(self._part):
                fresh = not self._part.exists()
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
                self._open_file = os.open(self._part, flags, 0o600)
                if fresh:
                    sync_directory(self._part.parent)
        return self._open_file
