"""Ranges and pieces on the devices' side; the dialogue itself is in `test_service`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import NodeError
from gpugoblin.wire.messages.blob import UploadState
from server_stub.node.http import devices

__all__: list[str] = []


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, (0, 100)), ("bytes=0-9", (0, 10)), ("bytes=90-500", (90, 100)), ("bytes=5-", (5, 100))],
)
def test_ranges(text: str | None, expected: tuple[int, int]) -> None:
    assert devices._range(text, 100) == expected


@pytest.mark.parametrize(
    "text", ["bytes=9-5", "bytes=-5", "items=0-5", "bytes=100-", "bytes=a-b", "0-5", "bytes=1-x"]
)
def test_ranges_that_cannot_be(text: str) -> None:
    with pytest.raises(NodeError):
        devices._range(text, 100)


def test_pieces_make_the_named_blob_and_only_it(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, 0)
    data = bytes(range(200))
    name = blob_hash(data)
    size = len(data)

    def put(offset: int, piece: bytes) -> UploadState:
        return devices._store(store, "lease_a-0", name, size, offset, piece)

    assert put(0, data[:80]) == UploadState(80, False)
    assert put(0, data[:50]) == UploadState(80, False), "bytes that are here already"
    assert put(150, data[150:]) == UploadState(80, False), "a hole is not filled"
    assert put(40, data[40:120]) == UploadState(120, False), "an overlap goes on"
    assert put(120, data[120:]) == UploadState(size, True)
    assert store.has(name)
    assert put(0, data) == UploadState(size, True)
    wrong = devices._store(store, "lease_b-0", blob_hash(b"other"), size, 0, data)
    assert wrong == UploadState(0, False)


def test_an_empty_output_is_one_empty_piece(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, 0)
    name = blob_hash(b"")
    assert devices._store(store, "lease_a-0", name, 0, 0, b"") == UploadState(0, True)
    assert store.has(name)
