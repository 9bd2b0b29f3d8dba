"""Where an engine's host gets the bytes of a blob: one interface, the lab node for now.

Owns: the `Source` protocol, the source of a local store, and `fetch_verified`, which trusts no
source. Must not: open connections; who has a link wraps it as `RangeReader`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gpugoblin.blobs.chunk import (
    CHUNK_BYTES,
    BlobManifest,
    check_manifest,
    chunk_digest,
)
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import StoreError
from gpugoblin.wire.messages.blob import Manifest

__all__ = ["LabNodeSource", "Source", "StoreSource", "fetch_verified"]

ManifestReader = Callable[[str], Manifest]
RangeReader = Callable[[str, int, memoryview], int]
"""`(blob, offset, target) -> bytes read`: fills `target` from byte `offset` of the blob on."""


class Source(Protocol):
    """Gives chunk lists and chunks. May lie: see `fetch_verified`."""

    def manifest(self, blob: str) -> BlobManifest: ...

    def read(self, blob: str, offset: int, target: memoryview) -> int: ...


class StoreSource:
    """A store on this machine."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store

    def manifest(self, blob: str) -> BlobManifest:
        return self._store.manifest(blob)

    def read(self, blob: str, offset: int, target: memoryview) -> int:
        with self._store.path(blob).open("rb", buffering=0) as file:
            file.seek(offset)
            return file.readinto(target) or 0


class LabNodeSource:
    """The lab node over a link that the caller holds."""

    def __init__(self, read_manifest: ManifestReader, read_range: RangeReader) -> None:
        self._read_manifest = read_manifest
        self._read_range = read_range

    def manifest(self, blob: str) -> BlobManifest:
        answer = self._read_manifest(blob)
        return check_manifest(answer.blob, answer.nbytes, answer.chunks)

    def read(self, blob: str, offset: int, target: memoryview) -> int:
        return self._read_range(blob, offset, target)


def fetch_verified(
    source: Source, blob: str, target: memoryview, *, from_chunk: int = 0
) -> BlobManifest:
    """Reads a blob into `target` and checks the chunk list and every chunk on arrival.

    Args:
        target: at least as long as the blob; chunks before `from_chunk` are taken as there.

    Raises:
        StoreError: `manifest_malformed`, `blob_truncated`, `blob_damaged`.
    """
    manifest = source.manifest(blob)
    if manifest.blob != blob or manifest.nbytes > target.nbytes:
        raise StoreError("manifest_malformed", blob=blob)
    for number in range(from_chunk, len(manifest.chunks)):
        start = number * CHUNK_BYTES
        stop = min(start + CHUNK_BYTES, manifest.nbytes)
        filled = start
        while filled < stop:
            got = source.read(blob, filled, target[filled:stop])
            if got <= 0:
                raise StoreError("blob_truncated", blob=blob, size=filled, expected=manifest.nbytes)
            filled += got
        if chunk_digest(target[start:stop]) != manifest.chunks[number]:
            raise StoreError("blob_damaged", blob=blob, chunk=number)
    return manifest
