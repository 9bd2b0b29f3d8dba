"""gg.open and gg.array: what is read (headers), what is named (content), what is refused."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
import zarr
from safetensors.numpy import save_file

import gpugoblin as gg
from gpugoblin.capture.source import FileSource
from gpugoblin.client.opening import refresh
from gpugoblin.errors import CaptureError, StoreError

NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


def source_of(array: gg.Array) -> FileSource:
    node = array.value.node
    while node.source is None:
        node = node.operands[0].node
    assert isinstance(node.source, FileSource)
    return node.source


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NUMBERS)
    (tmp_path / "link").symlink_to(tmp_path / "a.npy")
    array = gg.open(tmp_path / "link")
    assert (array.shape, array.dtype) == ((3, 4), np.float32)
    source = source_of(array)
    assert (source.kind, source.path) == ("npy", str(tmp_path / "a.npy"))
    assert "a.npy" in repr(array)


def test_column_major_bytes_are_the_transposed_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(NUMBERS))
    array = gg.open(tmp_path / "a.npy")
    assert array.shape == (3, 4)
    source = source_of(array)
    assert (source.kind, source.spec.shape) == ("raw", (4, 3))
    data = (tmp_path / "a.npy").read_bytes()[source.offset_bytes :]
    np.testing.assert_array_equal(np.frombuffer(data, "<f4").reshape(4, 3), NUMBERS.T)
    refresh(source)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(1 << 20, 1 << 12))
    assert path.stat().st_size > 1 << 34
    assert gg.open(path).nbytes == 1 << 34


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"a": NUMBERS, "b": NUMBERS.astype(np.float64)}, path)
    assert source_of(gg.open(path, member="a")).member == "a"
    with pytest.raises(StoreError, match="it has: a, b") as caught:
        gg.open(path)
    assert caught.value.code == "member_missing"
    with pytest.raises(CaptureError, match="dtype_refused"):
        gg.open(path, member="b")
    save_file({"only": NUMBERS}, path)
    assert gg.open(path).shape == (3, 4)


def test_zarr_and_an_array_inside_a_group(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    inside = group.create_array("x", shape=(3, 4), dtype="float32", chunks=(2, 2))
    inside[...] = NUMBERS
    array = gg.open(tmp_path / "g.zarr", member="x")
    source = source_of(array)
    assert (array.shape, source.path) == ((3, 4), str(tmp_path / "g.zarr" / "x"))
    refresh(source)
    inside[0, 0] = 7
    with pytest.raises(StoreError, match="file_changed"):
        refresh(source)
    with pytest.raises(StoreError, match="name an array inside"):
        gg.open(tmp_path / "g.zarr")
    with pytest.raises(StoreError, match="member_missing"):
        gg.open(tmp_path / "g.zarr", member="../..")


@pytest.mark.parametrize("part", [slice(None), slice(1, 3)])
def test_a_memmap_is_its_place_in_the_file(tmp_path: Path, part: slice) -> None:
    NUMBERS.tofile(tmp_path / "raw")
    mapped = np.memmap(tmp_path / "raw", np.float32, "r", offset=16, shape=(2, 4))[part]
    source = source_of(gg.open(mapped))
    assert source.offset_bytes == 16 + (16 if part.start else 0)
    data = (tmp_path / "raw").read_bytes()[source.offset_bytes :][: source.spec.nbytes]
    np.testing.assert_array_equal(np.frombuffer(data, "<f4").reshape(source.spec.shape), mapped)
    refresh(source)


def test_a_memmap_over_npy_and_a_transposed_one(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NUMBERS)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r+")
    array = gg.open(mapped.T)
    assert array.shape == (4, 3)
    source = source_of(array)
    assert source.spec.shape == (3, 4)
    refresh(source)
    mapped[0, 0] = 9
    mapped.flush()
    os.utime(tmp_path / "a.npy")
    with pytest.raises(StoreError, match="file_changed"):
        refresh(source)


def test_a_memmap_with_gaps_is_refused(tmp_path: Path) -> None:
    NUMBERS.tofile(tmp_path / "raw")
    mapped = np.memmap(tmp_path / "raw", np.float32, "r", shape=(3, 4))
    with pytest.raises(StoreError) as caught:
        gg.open(mapped[:, ::2])
    assert caught.value.code == "memmap_layout"
    del mapped, caught  # the traceback holds the mapping, which holds a descriptor
    gc.collect()


@pytest.mark.parametrize("dtype", ["longdouble", ">f4", "uint16", "uint32", "complex64"])
def test_other_dtypes_are_refused_with_file_and_line(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "a.npy", NUMBERS.astype(dtype))
    with pytest.raises(CaptureError) as caught:
        gg.open(tmp_path / "a.npy")
    text = str(caught.value)
    assert caught.value.code == "dtype_refused"
    assert "test_opening.py" in text
    assert "a.npy has dtype" in text
    assert "save that as another file" in caught.value.next_step


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "float16", "float64"])
def test_dtypes_are_opened_as_they_are(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "a.npy", NUMBERS.astype(dtype))
    assert gg.open(tmp_path / "a.npy").dtype == dtype


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello, this is text")
    for path, code in (("none", "file_unreadable"), ("text", "file_kind_unknown")):
        with pytest.raises(StoreError) as caught:
            gg.open(tmp_path / path)
        assert caught.value.code == code
    with pytest.raises(CaptureError, match=r"gg\.array"):
        gg.open(NUMBERS)  # type: ignore[arg-type]


def test_a_file_that_goes_away_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, NUMBERS)
    source = source_of(gg.open(path))
    np.save(path, NUMBERS[:2])
    with pytest.raises(StoreError, match="file_changed"):
        refresh(source)
    path.unlink()
    with pytest.raises(StoreError, match="file_unreadable"):
        refresh(source)
