"""The encrypted cache: what goes in comes out, nothing else does, and nothing stays."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from app.agent.cache import BlobCache
from gpugoblin.blobs.chunk import CHUNK_BYTES, BlobHasher, BlobManifest
from gpugoblin.errors import AgentError
from gpugoblin.ids import BlobHash, GrantId, LeaseId
from gpugoblin.units import GIB, MIB

G = GrantId("grant_a")
H = GrantId("grant_b")
L = LeaseId("lease_a")


def blob(seed: int, nbytes: int) -> tuple[BlobManifest, bytes]:
    data = random.Random(seed).randbytes(nbytes)
    hasher = BlobHasher()
    hasher.update(data)
    return hasher.manifest(), data


def store(cache: BlobCache, manifest: BlobManifest, data: bytes, grant: GrantId = G) -> None:
    cache.begin(grant, manifest)
    for chunk in cache.missing(grant, manifest.blob) or []:
        start = chunk * CHUNK_BYTES
        cache.put(grant, manifest.blob, chunk, memoryview(data)[start : start + CHUNK_BYTES])


def load(cache: BlobCache, manifest: BlobManifest, grant: GrantId = G) -> bytes:
    target = bytearray(manifest.nbytes)
    cache.read_into(grant, manifest.blob, memoryview(target))
    return bytes(target)


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    made = BlobCache(tmp_path / "cache", 32 * MIB, 0)
    made.open_grant(G)
    return made


@pytest.mark.parametrize("nbytes", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 9 * MIB])
def test_what_goes_in_comes_out(cache: BlobCache, nbytes: int) -> None:
    manifest, data = blob(nbytes, nbytes)
    store(cache, manifest, data)
    assert cache.missing(G, manifest.blob) == []
    assert load(cache, manifest) == data


def test_nothing_readable_is_on_the_disk(cache: BlobCache, tmp_path: Path) -> None:
    manifest, data = blob(1, 5 * MIB)
    store(cache, manifest, data)
    files = list((tmp_path / "cache").iterdir())
    assert [file.name for file in files] == ["1"]
    raw = files[0].read_bytes()
    pieces = [data[start : start + 16] for start in range(0, len(data), 65536)]
    assert not any(piece in raw for piece in pieces)
    assert manifest.blob.encode() not in raw
    assert bytes.fromhex(manifest.blob) not in raw
    assert files[0].stat().st_mode & 0o777 == 0o600


def test_false_bytes_are_refused_and_not_kept(cache: BlobCache) -> None:
    manifest, data = blob(2, CHUNK_BYTES)
    cache.begin(G, manifest)
    wrong = bytearray(data)
    wrong[77] ^= 1
    with pytest.raises(AgentError) as caught:
        cache.put(G, manifest.blob, 0, memoryview(wrong))
    assert caught.value.code == "blob_is_false"
    with pytest.raises(AgentError):
        cache.put(G, manifest.blob, 0, memoryview(data)[:-1])
    assert cache.missing(G, manifest.blob) == [0]


def test_an_arrival_goes_on_where_it_broke_off(cache: BlobCache) -> None:
    manifest, data = blob(3, 9 * MIB)
    cache.begin(G, manifest)
    cache.put(G, manifest.blob, 1, memoryview(data)[CHUNK_BYTES : 2 * CHUNK_BYTES])
    assert cache.missing(G, manifest.blob) == [0, 2]
    with pytest.raises(AgentError, match="not whole"):
        load(cache, manifest)
    store(cache, manifest, data)
    assert load(cache, manifest) == data


def test_a_changed_file_is_thrown_away(cache: BlobCache, tmp_path: Path) -> None:
    manifest, data = blob(4, MIB)
    store(cache, manifest, data)
    file = tmp_path / "cache" / "1"
    raw = bytearray(file.read_bytes())
    raw[1000] ^= 1
    file.write_bytes(raw)
    with pytest.raises(AgentError) as caught:
        load(cache, manifest)
    assert caught.value.code == "cache_damaged"
    assert cache.missing(G, manifest.blob) is None


def test_chunks_cannot_change_places(cache: BlobCache, tmp_path: Path) -> None:
    manifest, data = blob(5, 2 * CHUNK_BYTES)
    store(cache, manifest, data)
    file = tmp_path / "cache" / "1"
    raw = file.read_bytes()
    half = len(raw) // 2
    file.write_bytes(raw[half:] + raw[:half])
    with pytest.raises(AgentError, match="changed on disk"):
        load(cache, manifest)


def test_the_longest_unused_goes_first_and_pinned_blobs_stay(cache: BlobCache) -> None:
    blobs = [blob(seed, 10 * MIB) for seed in range(10, 14)]
    for manifest, data in blobs[:3]:
        store(cache, manifest, data)
    cache.pin(G, blobs[0][0].blob, L)
    load(cache, blobs[1][0])
    store(cache, *blobs[3])
    there = [cache.missing(G, manifest.blob) == [] for manifest, _ in blobs]
    assert there == [True, True, False, True]
    cache.unpin(L)
    store(cache, *blobs[2])
    assert cache.missing(G, blobs[0][0].blob) is None


def test_a_blob_that_can_never_fit_is_refused(cache: BlobCache) -> None:
    manifest = BlobManifest(BlobHash("ab" * 32), 40 * MIB, ("00" * 32,) * 10)
    with pytest.raises(AgentError) as caught:
        cache.begin(G, manifest)
    assert caught.value.code == "cache_full"


def test_a_cache_full_of_pins_refuses_more(cache: BlobCache) -> None:
    first, second = blob(20, 20 * MIB), blob(21, 20 * MIB)
    store(cache, *first)
    cache.pin(G, first[0].blob, L)
    with pytest.raises(AgentError) as caught:
        cache.begin(G, second[0])
    assert caught.value.code == "cache_full"


def test_the_disk_is_never_filled_beyond_its_floor(tmp_path: Path) -> None:
    cache = BlobCache(tmp_path / "c", GIB, 10 * MIB, free_bytes=lambda _: 12 * MIB)
    cache.open_grant(G)
    cache.begin(G, blob(22, MIB)[0])
    cache.pin(G, blob(22, MIB)[0].blob, L)
    with pytest.raises(AgentError) as caught:
        cache.begin(G, blob(23, 4 * MIB)[0])
    assert caught.value.code == "disk_floor"


def test_a_grant_takes_its_blobs_with_it(cache: BlobCache, tmp_path: Path) -> None:
    manifest, data = blob(6, MIB)
    cache.open_grant(H)
    store(cache, manifest, data)
    store(cache, manifest, data, H)
    cache.close_grant(G)
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["2"]
    assert load(cache, manifest, H) == data
    with pytest.raises(AgentError):
        load(cache, manifest)
    cache.close()
    assert list((tmp_path / "cache").iterdir()) == []
    assert cache.used_bytes == 0


def test_a_chunk_that_arrives_after_its_grant_ended_is_an_error_not_a_file(
    cache: BlobCache, tmp_path: Path
) -> None:
    manifest, data = blob(7, 1000)
    cache.begin(G, manifest)
    cache.close_grant(G)
    with pytest.raises(AgentError):
        cache.put(G, manifest.blob, 0, memoryview(data))
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_an_earlier_process_left_is_discarded(cache: BlobCache, tmp_path: Path) -> None:
    manifest, data = blob(8, MIB)
    store(cache, manifest, data)
    later = BlobCache(tmp_path / "cache", 32 * MIB, 0)
    assert later.discarded_bytes == MIB + 16
    assert list((tmp_path / "cache").iterdir()) == []
    later.open_grant(G)
    assert later.missing(G, manifest.blob) is None


def test_many_small_blobs_take_whole_blocks_of_the_limit(tmp_path: Path) -> None:
    """A lab of one-byte blobs would else fill a disk a hundred times over the limit."""
    cache = BlobCache(tmp_path / "cache", 64 * 1024, 0)
    cache.open_grant(G)
    for seed in range(40):
        store(cache, *blob(seed, 1))
    assert len(list((tmp_path / "cache").iterdir())) == 16
    assert cache.used_bytes == 64 * 1024
    cache.close_grant(G)
    assert cache.used_bytes == 0
