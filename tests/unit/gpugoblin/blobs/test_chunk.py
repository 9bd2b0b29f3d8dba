"""Names of chunks and blobs."""

from __future__ import annotations

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from gpugoblin.blobs.chunk import (
    CHUNK_BYTES,
    BlobHasher,
    blob_hash,
    blob_name,
    check_manifest,
    check_name,
    chunk_count,
    chunk_digest,
)
from gpugoblin.errors import StoreError
from gpugoblin.hashing import BLOB, CHUNK

TWO_CHUNKS = np.arange(CHUNK_BYTES + 1000, dtype=np.uint32).view(np.uint8)[: CHUNK_BYTES + 7]


def by_hand(data: bytes) -> str:
    parts = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    digests = [blake3(part, derive_key_context=CHUNK).digest() for part in parts]
    size = len(data).to_bytes(8, "little")
    return blake3(size + b"".join(digests), derive_key_context=BLOB).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_blob_hash_is_the_declared_two_level_hash(size: int) -> None:
    data = bytes(range(256)) * 4
    assert blob_hash(data[:size]) == by_hand(data[:size])


def test_blob_hash_over_chunk_border() -> None:
    assert blob_hash(TWO_CHUNKS.data) == by_hand(TWO_CHUNKS.tobytes())


@given(st.lists(st.integers(1, 3_000_000), max_size=6))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    hasher, at = BlobHasher(), 0
    for cut in cuts:
        hasher.update(TWO_CHUNKS[at : at + cut].data)
        at = min(TWO_CHUNKS.size, at + cut)
    hasher.update(TWO_CHUNKS[at:].data)
    manifest = hasher.manifest()
    assert manifest.blob == blob_hash(TWO_CHUNKS.data)
    assert manifest.nbytes == TWO_CHUNKS.nbytes == hasher.nbytes
    assert manifest.chunks[1] == chunk_digest(TWO_CHUNKS[CHUNK_BYTES:].data)
    assert check_manifest(manifest.blob, manifest.nbytes, manifest.chunks) == manifest


def test_size_is_part_of_the_name() -> None:
    assert blob_name(0, ()) != blob_name(1, ())


def test_chunk_count() -> None:
    sizes = (0, 1, CHUNK_BYTES, CHUNK_BYTES + 1)
    assert [chunk_count(size) for size in sizes] == [0, 1, 1, 2]


@pytest.mark.parametrize("name", ["", "g" * 64, "A" * 64, "a" * 63, "../" + "a" * 61])
def test_names_are_checked(name: str) -> None:
    with pytest.raises(StoreError) as caught:
        check_name(name)
    assert caught.value.code == "blob_name_malformed"


def test_manifest_from_outside_is_checked() -> None:
    manifest = BlobHasher().manifest()
    good = blob_hash(b"x")
    chunk = chunk_digest(b"x")
    assert check_manifest(good, 1, [chunk]).chunks == (chunk,)
    for blob, nbytes, chunks in (
        (good, 2, [chunk]),
        (good, 1, []),
        (good, 1, [chunk, chunk]),
        (good, 1, ["x" * 64]),
        (good, -1, []),
        (manifest.blob, 1, [chunk]),
    ):
        with pytest.raises(StoreError) as caught:
            check_manifest(blob, nbytes, chunks)
        assert caught.value.code == "manifest_malformed"
