"""Sources are not trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugoblin.blobs.chunk import CHUNK_BYTES, BlobManifest, blob_hash
from gpugoblin.blobs.source import LabNodeSource, StoreSource, fetch_verified
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import StoreError
from gpugoblin.wire.messages.blob import Manifest

DATA = bytes(range(250)) * (CHUNK_BYTES // 250 + 10)


@pytest.fixture
def source(tmp_path: Path) -> StoreSource:
    store = BlobStore(tmp_path)
    store.put(DATA)
    return StoreSource(store)


def test_fetch_from_store(source: StoreSource) -> None:
    target = bytearray(len(DATA))
    manifest = fetch_verified(source, blob_hash(DATA), memoryview(target))
    assert target == DATA
    assert len(manifest.chunks) == 2


def test_resume_reads_only_the_rest(source: StoreSource) -> None:
    target = bytearray(len(DATA))
    fetch_verified(source, blob_hash(DATA), memoryview(target), from_chunk=1)
    assert target[:CHUNK_BYTES] == bytes(CHUNK_BYTES)
    assert target[CHUNK_BYTES:] == DATA[CHUNK_BYTES:]


class Liar:
    """Answers as told."""

    def __init__(self, manifest: BlobManifest, data: bytes, piece: int) -> None:
        self._manifest, self._data, self._piece = manifest, data, piece

    def manifest(self, blob: str) -> BlobManifest:
        return self._manifest

    def read(self, blob: str, offset: int, target: memoryview) -> int:
        part = self._data[offset : offset + min(self._piece, target.nbytes)]
        target[: len(part)] = part
        return len(part)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data, None),
        (lambda data: data[:-1], "blob_truncated"),
        (lambda data: data[:5] + b"\xff" + data[6:], "blob_damaged"),
    ],
)
def test_bytes_are_checked(source: StoreSource, change: object, code: str | None) -> None:
    blob = blob_hash(DATA)
    liar = Liar(source.manifest(blob), change(DATA), 1_000_000)  # type: ignore[operator]
    target = memoryview(bytearray(len(DATA)))
    if code is None:
        fetch_verified(liar, blob, target)
        return
    with pytest.raises(StoreError) as caught:
        fetch_verified(liar, blob, target)
    assert caught.value.code == code


def test_chunk_list_of_another_blob(source: StoreSource) -> None:
    blob = blob_hash(DATA)
    liar = Liar(source.manifest(blob), DATA, 1000)
    with pytest.raises(StoreError) as caught:
        fetch_verified(liar, blob_hash(b"other"), memoryview(bytearray(len(DATA))))
    assert caught.value.code == "manifest_malformed"
    with pytest.raises(StoreError):
        fetch_verified(liar, blob, memoryview(bytearray(10)))


def test_lab_node_source(source: StoreSource) -> None:
    blob = blob_hash(DATA)
    known = source.manifest(blob)
    honest = LabNodeSource(
        lambda name: Manifest(blob=known.blob, nbytes=known.nbytes, chunks=known.chunks),
        source.read,
    )
    target = bytearray(len(DATA))
    fetch_verified(honest, blob, memoryview(target))
    assert target == DATA
    lying = LabNodeSource(
        lambda name: Manifest(blob=known.blob, nbytes=known.nbytes + 1, chunks=known.chunks),
        source.read,
    )
    with pytest.raises(StoreError):
        lying.manifest(blob)
