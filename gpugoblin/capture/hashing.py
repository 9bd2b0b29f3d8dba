"""Names for the content of inputs: which bytes a job computes on.

Owns: the two rules. A file is named by kind, real path, device, inode, size, time of change and
header, so that a terabyte is never read twice; an array in memory is named by its bytes. Must
not: send anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import numpy as np

from gpugoblin.catalog.spec import Array
from gpugoblin.hashing import Hasher, digest

__all__ = ["fingerprint_array", "fingerprint_directory", "fingerprint_file", "pieces"]

FILE: Final = "gpugoblin 2026-11 file"
MEMORY: Final = "gpugoblin 2026-11 memory"
_PIECE_BYTES: Final = 4 * 1024 * 1024


def fingerprint_file(kind: str, path: str, header: bytes) -> str:
    """64 hexadecimal digits for one file. `path` is real and absolute.

    Raises:
        OSError: the file cannot be looked at.
    """
    return digest(FILE, _framed((kind.encode(), *_facts(path, os.stat(path)), header)))


def fingerprint_directory(kind: str, path: str, header: bytes) -> str:
    """64 hexadecimal digits for a directory of chunk files (zarr).

    Every file in it is looked at, none is opened.

    Raises:
        OSError: a directory cannot be listed.
    """
    hasher = Hasher(FILE)
    for part in _framed((kind.encode(), path.encode(), header)):
        hasher.update(part)
    for file, stat in _walk(path):
        for part in _framed(_facts(os.path.relpath(file, path), stat)):
            hasher.update(part)
    return hasher.hexdigest()


def fingerprint_array(array: Array) -> str:
    """64 hexadecimal digits for dtype, shape and bytes, in C order."""
    hasher = Hasher(MEMORY)
    for part in _framed((array.dtype.str.encode(), repr(array.shape).encode())):
        hasher.update(part)
    for piece in pieces(array, _PIECE_BYTES):
        hasher.update(piece)
    return hasher.hexdigest()


def pieces(array: Array, piece_bytes: int) -> Iterator[memoryview]:
    """The bytes of an array in C order, piece by piece; copies only what is not contiguous."""
    if array.size == 0:
        return
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8).data
        for start in range(0, len(flat), piece_bytes):
            yield flat[start : start + piece_bytes]
        return
    rows = max(1, piece_bytes * array.shape[0] // array.nbytes)
    for row in range(0, array.shape[0], rows):
        yield np.ascontiguousarray(array[row : row + rows]).reshape(-1).view(np.uint8).data


def _facts(name: str, stat: os.stat_result) -> tuple[bytes, ...]:
    numbers = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return (os.fsencode(name), *(str(number).encode() for number in numbers))


def _framed(parts: tuple[bytes, ...]) -> list[bytes]:
    """Each part after its length, so that no two lists of parts read the same."""
    framed: list[bytes] = []
    for part in parts:
        framed += [len(part).to_bytes(8, "little"), part]
    return framed


def _walk(path: str) -> Iterator[tuple[str, os.stat_result]]:
    pending = [path]
    while pending:
        directory = pending.pop()
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            else:
                yield entry.path, entry.stat()
