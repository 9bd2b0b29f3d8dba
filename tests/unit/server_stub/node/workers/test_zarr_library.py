"""Arrays that the library reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.core.sync import cleanup_resources

from gpugoblin.errors import StoreError
from server_stub.node.work import Box
from server_stub.node.workers.zarr_library import ZarrLibraryLayout


@pytest.fixture(autouse=True)
def _zarr_threads() -> Iterator[None]:
    """The library keeps a loop in a thread of its own until it is told to end it."""
    yield
    cleanup_resources()


def test_ranges_of_a_box(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(0, 99, (40, 30, 3)).astype(np.int32)
    array = zarr.create_array(
        str(tmp_path / "z"), shape=content.shape, chunks=(7, 9, 3), dtype="i4"
    )
    array[:] = content
    layout = ZarrLibraryLayout(tmp_path / "z", "")
    box = Box((3, 2, 1), (38, 29, 3))
    expected = content[3:38, 2:29, 1:3].tobytes()
    for start, stop in ((0, len(expected)), (5, 6), (1000, 5000), (7, 7)):
        target = bytearray(stop - start)
        layout.read(box, start, stop, memoryview(target))
        assert target == expected[start:stop]
    layout.advise(box)
    layout.sync()
    layout.close()


def test_scalar(tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path / "z"), shape=(), dtype="f4")
    array[...] = 3
    target = bytearray(4)
    ZarrLibraryLayout(tmp_path / "z", "").read(Box((), ()), 0, 4, memoryview(target))
    assert np.frombuffer(target, "<f4")[0] == 3


def test_damaged_chunk(tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path / "z"), shape=(8,), chunks=(8,), dtype="i4")
    array[:] = np.arange(8)
    (tmp_path / "z" / "c" / "0").write_bytes(b"no zstd at all")
    with pytest.raises(StoreError) as caught:
        ZarrLibraryLayout(tmp_path / "z", "").read(
            Box((0,), (8,)), 0, 32, memoryview(bytearray(32))
        )
    assert caught.value.code == "array_unreadable"


def test_what_is_no_array(tmp_path: Path) -> None:
    (tmp_path / "z").mkdir()
    with pytest.raises(StoreError) as caught:
        ZarrLibraryLayout(tmp_path / "z", "")
    assert caught.value.code == "array_unreadable"


def test_a_header_cannot_ask_for_all_memory(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "z"), shape=(1 << 20,) * 2, chunks=(1 << 20, 1024), dtype="i4")
    with pytest.raises(StoreError, match="4294967296 bytes") as caught:
        ZarrLibraryLayout(tmp_path / "z", "")
    assert caught.value.code == "array_unreadable"
