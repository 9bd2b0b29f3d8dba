"""Small things about files that last: full reads and writes, syncs, free space.

Owns: the translation of the system's errors into `StoreError`, and the order of syncs that makes a
file durable. Must not: know what the bytes mean.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpugoblin.errors import StoreError
from gpugoblin.hashing import Buffer

__all__ = [
    "durable_write",
    "free_bytes",
    "io_errors",
    "pread_exact",
    "pwrite_all",
    "require_space",
    "sync_directory",
]

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def io_errors(path: Path | str, needed_bytes: int = 0) -> Iterator[None]:
    """Turns an OSError inside into StoreError `disk_full` or `disk_failed`."""
    try:
        yield
    except StoreError:
        raise
    except OSError as cause:
        if cause.errno in _FULL:
            raise StoreError(
                "disk_full", path=str(path), needed_bytes=needed_bytes, free_bytes=free_bytes(path)
            ) from cause
        reason = cause.strerror or str(cause)
        raise StoreError("disk_failed", path=str(path), reason=reason) from cause


def free_bytes(path: Path | str) -> int:
    """Bytes that an ordinary user may still write on the disk that holds `path`."""
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


def require_space(path: Path | str, needed_bytes: int, reserve_bytes: int = 0) -> None:
    """Raises StoreError `disk_full` when `needed_bytes` would leave less than the reserve."""
    free = free_bytes(path)
    if needed_bytes + reserve_bytes > free:
        raise StoreError("disk_full", path=str(path), needed_bytes=needed_bytes, free_bytes=free)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def pwrite_all(descriptor: int, data: Buffer, offset: int) -> None:
    """Writes all of `data` at `offset`."""
    view = memoryview(data).cast("B")
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def pread_exact(descriptor: int, target: memoryview, offset: int) -> int:
    """Fills `target` from `offset` on; returns how many bytes came (fewer at the file's end)."""
    filled = 0
    while filled < target.nbytes:
        got = os.preadv(descriptor, [target[filled:]], offset + filled)
        if got == 0:
            break
        filled += got
    return filled


def durable_write(path: Path, data: Buffer) -> None:
    """Replaces `path` in one step: written beside it, synced, renamed, directory synced."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with io_errors(path, memoryview(data).nbytes):
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            pwrite_all(descriptor, data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(beside, path)
        sync_directory(path.parent)
