"""Blobs and uploads against a lab that a test spoils: resumed, verified, bounded."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.agent import lab
from app.agent.cache import BlobCache
from app.agent.lab import Output
from app.agent.link import PeerRefusal
from gpugoblin.blobs.chunk import CHUNK_BYTES, BlobHasher, BlobManifest, blob_hash
from gpugoblin.errors import AgentError
from gpugoblin.ids import BlobHash, GrantId, LeaseId
from gpugoblin.units import MIB
from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.blob import Manifest, UploadState
from gpugoblin.wire.messages.lease import UploadedReply

G, L = GrantId("grant_a"), LeaseId("lease_a")


class FakeLink:
    """A lab with one blob and one upload."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        hasher = BlobHasher()
        hasher.update(data)
        self.manifest: BlobManifest = hasher.manifest()
        self.ranges: list[tuple[int, int]] = []
        self.breaks_after: int | None = None
        self.stored = bytearray()
        self.offsets: list[int] = []
        self.states: list[Any] = ["checking"]
        self.wanted_bytes = 0
        self.put: Callable[[int, bytes], UploadState] | None = None

    def call(self, method: str, path: str, body: bytes = b"", **_: Any) -> bytes:
        if path.endswith("/manifest"):
            found = self.manifest
            return encode(Manifest(found.blob, found.nbytes, found.chunks))
        if method == "PUT":
            offset = int(path.rpartition("=")[2])
            self.offsets.append(offset)
            if self.put is not None:
                return encode(self.put(offset, body))
            if offset == len(self.stored):
                self.stored += body
            done = len(self.stored) >= self.wanted_bytes
            return encode(UploadState(len(self.stored), done))
        state = self.states.pop(0)
        missing = (0,) if state == "missing" else ()
        return encode(UploadedReply(state, missing))

    def stream(
        self,
        path: str,
        start: int,
        target: memoryview,
        *,
        headers: dict[str, str],
        goes_on: Callable[[int], bool],
    ) -> None:
        self.ranges.append((start, start + target.nbytes))
        for there in range(0, target.nbytes, MIB):
            size = min(MIB, target.nbytes - there)
            target[there : there + size] = self.data[start + there : start + there + size]
            if self.breaks_after is not None:
                self.breaks_after -= 1
                if self.breaks_after < 0:
                    self.breaks_after = None
                    raise AgentError("peer_away", peer="lab node", address="x", reason="gone")
            if not goes_on(there + size):
                return


def fetched(cache: BlobCache, link: Any, goes_on: Callable[[], bool] = lambda: True) -> bytes:
    manifest = link.manifest
    lab.fetch(link, cache, G, ("grant", "blob"), manifest.blob, manifest.nbytes, goes_on)
    target = bytearray(manifest.nbytes)
    cache.read_into(G, manifest.blob, memoryview(target))
    return bytes(target)


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    made = BlobCache(tmp_path / "cache", 64 * MIB, 0)
    made.open_grant(G)
    return made


DATA = random.Random(1).randbytes(5 * CHUNK_BYTES + 17)


def test_a_blob_comes_in_runs_of_chunks(cache: BlobCache) -> None:
    link = FakeLink(DATA)
    assert fetched(cache, link) == DATA
    assert link.ranges == [(0, 4 * CHUNK_BYTES), (4 * CHUNK_BYTES, len(DATA))]


def test_nothing_and_something_small(cache: BlobCache) -> None:
    assert fetched(cache, FakeLink(b"")) == b""
    assert fetched(cache, FakeLink(b"x")) == b"x"


def test_a_blob_that_is_there_is_not_fetched_again(cache: BlobCache) -> None:
    fetched(cache, FakeLink(DATA))
    link = FakeLink(DATA)
    assert fetched(cache, link) == DATA
    assert link.ranges == []


def test_a_broken_download_goes_on_from_its_last_whole_chunk(cache: BlobCache) -> None:
    link = FakeLink(DATA)
    link.breaks_after = 10  # in the middle of the third chunk
    with pytest.raises(AgentError):
        fetched(cache, link)
    assert cache.missing(G, link.manifest.blob) == [2, 3, 4, 5]
    assert fetched(cache, link) == DATA
    assert link.ranges[-1][0] == 2 * CHUNK_BYTES


def test_a_flipped_bit_is_found_in_its_chunk(cache: BlobCache) -> None:
    link = FakeLink(DATA)
    spoiled = bytearray(DATA)
    spoiled[CHUNK_BYTES + 5] ^= 4
    link.data = bytes(spoiled)
    with pytest.raises(AgentError, match="chunk 1") as caught:
        fetched(cache, link)
    assert caught.value.code == "blob_is_false"
    assert cache.missing(G, link.manifest.blob) == [1, 2, 3, 4, 5]


def test_a_chunk_list_of_another_size_is_a_lie(cache: BlobCache) -> None:
    link: Any = FakeLink(DATA)
    with pytest.raises(AgentError) as caught:
        lab.fetch(link, cache, G, ("", ""), link.manifest.blob, len(DATA) - 1, lambda: True)
    assert caught.value.code == "blob_is_false"
    assert link.ranges == []


def test_a_closed_grant_breaks_off(cache: BlobCache) -> None:
    link = FakeLink(DATA)
    with pytest.raises(AgentError) as caught:
        fetched(cache, link, lambda: len(link.ranges) < 1)
    assert caught.value.code == "grant_closed"
    with pytest.raises(AgentError):
        fetched(cache, FakeLink(DATA), lambda: False)


def output(data: bytes) -> Output:
    return Output(0, blob_hash(data), data)


def sent(link: Any, data: bytes) -> str:
    link.wanted_bytes = len(data)
    return lab.upload(link, "grant", L, (output(data),), lambda: True)


def test_an_upload_in_pieces() -> None:
    link = FakeLink()
    data = DATA[: 2 * CHUNK_BYTES + 5]
    assert sent(link, data) == "checking"
    assert bytes(link.stored) == data
    assert link.offsets == [0, CHUNK_BYTES, 2 * CHUNK_BYTES]


def test_an_upload_goes_on_where_the_lab_says() -> None:
    link = FakeLink()
    data = DATA[: 2 * CHUNK_BYTES]
    link.stored = bytearray(data[:CHUNK_BYTES])
    assert sent(link, data) == "checking"
    assert bytes(link.stored) == data


def test_an_upload_that_is_refused_with_its_place_goes_on_there() -> None:
    link = FakeLink()
    data = DATA[: 2 * CHUNK_BYTES]

    def put(offset: int, body: bytes) -> UploadState:
        if offset == 0:
            refusal = PeerRefusal("lab node", "PUT", 409, "upload_offset", said="", advice="")
            refusal.remote_fields = {"stored_bytes": CHUNK_BYTES}
            raise refusal
        return UploadState(len(data), True)

    link.put = put
    assert sent(link, data) == "checking"
    assert link.offsets == [0, CHUNK_BYTES]


def test_what_is_missing_is_sent_again() -> None:
    link = FakeLink()
    link.states = ["missing", "checking"]
    assert sent(link, b"abc") == "checking"
    assert link.offsets == [0, 0]


@pytest.mark.parametrize(
    "put",
    [
        lambda offset, body: UploadState(0, False),
        lambda offset, body: UploadState(10**9, False),
    ],
)
def test_a_lab_that_never_has_enough_is_given_up(put: Callable[[int, bytes], UploadState]) -> None:
    link = FakeLink()
    link.put = put
    with pytest.raises(AgentError) as caught:
        sent(link, b"abc")
    assert caught.value.code == "upload_unfinished"


def test_a_lab_that_always_misses_something_is_given_up() -> None:
    link = FakeLink()
    link.states = ["missing"] * 10
    with pytest.raises(AgentError):
        sent(link, b"abc")


def test_names_are_hashes() -> None:
    assert output(b"abc").blob == BlobHash(blob_hash(b"abc"))
