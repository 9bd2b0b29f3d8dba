"""Inputs and outputs as streams."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.blobs.chunk import CHUNK_BYTES, blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import StoreError
from server_stub.node.work import BlobInput, BlobOutput, Box, RegionInput, RegionOutput
from server_stub.node.workers.streams import Sinks, key_of, open_input, read_hashed
from tests.helpers.node_work import blob_of, load_file, region_of, result_of

LARGE = np.random.default_rng(0).integers(0, 2**31, (1100, 1024)).astype(np.int32)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "store")


@pytest.mark.parametrize("threads", [0, 2])
def test_region_is_read_and_hashed_in_one_pass(
    tmp_path: Path, store: BlobStore, threads: int
) -> None:
    source = region_of(tmp_path, "x", LARGE, pad=3)
    stream = open_input(source, store)
    target = bytearray(stream.nbytes)
    seen: list[tuple[int, int]] = []
    executor = ThreadPoolExecutor(threads) if threads else None
    try:
        blob = read_hashed(stream, memoryview(target), lambda a, b: seen.append((a, b)), executor)
        stream.advise()
    finally:
        stream.close()
        if executor is not None:
            executor.shutdown()
    assert blob == blob_hash(LARGE.tobytes())
    assert bytes(target) == LARGE.tobytes()
    assert sorted(seen) == [(0, CHUNK_BYTES), (CHUNK_BYTES, LARGE.nbytes)]


def test_blob_is_read_in_any_ranges(store: BlobStore) -> None:
    stream = open_input(blob_of(store, LARGE), store)
    data = LARGE.tobytes()
    try:
        for start, stop in ((0, 10), (CHUNK_BYTES - 3, CHUNK_BYTES + 5), (0, len(data))):
            target = bytearray(stop - start)
            stream.read(start, stop, memoryview(target))
            assert target == data[start:stop]
        assert read_hashed(stream, memoryview(bytearray(len(data)))) == stream.blob
    finally:
        stream.close()


def test_other_bytes_than_promised(tmp_path: Path, store: BlobStore) -> None:
    source = region_of(tmp_path, "x", LARGE[:10])
    promised = RegionInput(source.array, source.box, blob_hash(b"other"))
    stream = open_input(promised, store)
    with pytest.raises(StoreError) as caught:
        read_hashed(stream, memoryview(bytearray(stream.nbytes)))
    stream.close()
    assert caught.value.code == "array_bytes_changed"
    assert source.array.path in str(caught.value)


def test_blob_of_another_size(store: BlobStore) -> None:
    good = blob_of(store, LARGE[:2])
    with pytest.raises(StoreError) as caught:
        open_input(BlobInput(good.blob, 100, "int32", (25,)), store)
    assert caught.value.code == "blob_truncated"


def test_keys_name_content(tmp_path: Path, store: BlobStore) -> None:
    source = region_of(tmp_path, "x", LARGE[:10])
    other = RegionInput(source.array, Box((0, 0), (9, 1024)))
    assert key_of(source) != key_of(other)
    assert key_of(source) == key_of(RegionInput(source.array, source.box))
    before = key_of(source)
    np.save(source.array.path, LARGE[:10] + 1)
    assert key_of(source) != before
    Path(source.array.path).unlink()
    assert "gone" in key_of(source)
    assert key_of(blob_of(store, LARGE[:1])).startswith("blob:")


def test_outputs(tmp_path: Path, store: BlobStore) -> None:
    place = result_of(tmp_path, "out.npy", "int32", LARGE.shape)
    data = LARGE.tobytes()
    with Sinks((place, BlobOutput("int32", LARGE.shape)), store) as sinks:
        for start in range(0, len(data), 1_000_000):
            for sink in sinks.sinks:
                sink.write(start, memoryview(data[start : start + 1_000_000]))
        assert [sink.finish() for sink in sinks.sinks] == ["", blob_hash(data)]
    np.testing.assert_array_equal(load_file(place.array), LARGE)
    with store.open_read(blob_hash(data)) as reader:
        assert reader.read() == data


def test_outputs_must_fit_their_place(tmp_path: Path, store: BlobStore) -> None:
    place = result_of(tmp_path, "out.npy", "int32", (4, 4))
    wrong = RegionOutput(place.array, place.box, "int32", (3, 4))
    with pytest.raises(StoreError) as caught:
        Sinks((BlobOutput("int32", (4,)), wrong), store)
    assert caught.value.code == "array_box"
    assert not list((store.root / "parts").iterdir())
