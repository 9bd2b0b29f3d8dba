"""Names of bytes: chunks of 4 MiB, and blobs made of them.

Owns: the two-level hash. Must not: read or write files.

A chunk's digest is BLAKE3 in the domain CHUNK over its bytes. A blob's name is BLAKE3 in the domain
BLOB over its size (8 bytes, little-endian) and the digests of its chunks in order. All chunks have
`CHUNK_BYTES` but the last, which has 1 to `CHUNK_BYTES`; a blob of no bytes has no chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpugoblin.errors import StoreError
from gpugoblin.hashing import BLOB, CHUNK, Buffer, Hasher, digest
from gpugoblin.ids import BlobHash
from gpugoblin.units import MIB

__all__ = [
    "CHUNK_BYTES",
    "BlobHasher",
    "BlobManifest",
    "blob_hash",
    "blob_name",
    "check_manifest",
    "check_name",
    "chunk_count",
    "chunk_digest",
]

CHUNK_BYTES: Final = 4 * MIB

_NAME = re.compile(r"\A[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class BlobManifest:
    """What a blob is made of: its name, its size, the digests of its chunks in order."""

    blob: BlobHash
    nbytes: int
    chunks: tuple[str, ...]


def check_name(name: str) -> BlobHash:
    """`name` as a blob's name. Raises StoreError `blob_name_malformed`."""
    if _NAME.match(name) is None:
        raise StoreError("blob_name_malformed", name=name[:80])
    return BlobHash(name)


def chunk_count(nbytes: int) -> int:
    """Number of chunks of a blob of `nbytes` bytes."""
    return -(-nbytes // CHUNK_BYTES)


def chunk_digest(data: Buffer) -> str:
    """The digest of one chunk (a memoryview must be cast to bytes)."""
    return digest(CHUNK, data)


def blob_name(nbytes: int, chunks: Iterable[str]) -> BlobHash:
    """The name of a blob from its size and the digests of its chunks."""
    hasher = Hasher(BLOB)
    hasher.update(nbytes.to_bytes(8, "little"))
    hasher.update(b"".join(bytes.fromhex(chunk) for chunk in chunks))
    return BlobHash(hasher.hexdigest())


def check_manifest(blob: str, nbytes: int, chunks: Sequence[str]) -> BlobManifest:
    """A manifest that came from outside. Raises StoreError `manifest_malformed`."""
    name = check_name(blob)
    fits = nbytes >= 0 and len(chunks) == chunk_count(nbytes)
    if not fits or any(_NAME.match(chunk) is None for chunk in chunks):
        raise StoreError("manifest_malformed", blob=blob)
    if blob_name(nbytes, chunks) != name:
        raise StoreError("manifest_malformed", blob=blob)
    return BlobManifest(name, nbytes, tuple(chunks))


class BlobHasher:
    """The name of a blob, piece by piece and without copies of the bytes.

    `update` takes pieces of any size in order; `manifest` may be asked at any time.
    """

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self._open: Hasher | None = None
        self._open_bytes = 0
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes taken so far."""
        return self._nbytes

    def update(self, data: Buffer) -> None:
        """Adds `data` (a memoryview must be cast to bytes: `array.view(uint8).data`)."""
        view = memoryview(data)
        start, size = 0, view.nbytes
        while start < size:
            if self._open is None:
                self._open = Hasher(CHUNK)
            stop = min(size, start + CHUNK_BYTES - self._open_bytes)
            self._open.update(view[start:stop])
            self._open_bytes += stop - start
            if self._open_bytes == CHUNK_BYTES:
                self._chunks.append(self._open.hexdigest())
                self._open, self._open_bytes = None, 0
            start = stop
        self._nbytes += size

    def manifest(self) -> BlobManifest:
        """The manifest of all bytes so far."""
        chunks = list(self._chunks)
        if self._open is not None:
            chunks.append(self._open.hexdigest())
        return BlobManifest(blob_name(self._nbytes, chunks), self._nbytes, tuple(chunks))


def blob_hash(data: Buffer) -> BlobHash:
    """The name of the blob that holds exactly `data`."""
    hasher = BlobHasher()
    hasher.update(data)
    return hasher.manifest().blob
