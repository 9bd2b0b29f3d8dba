"""Arrays on disk: all kinds, all refusals, results made and published."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import zarr
from zarr.core.sync import cleanup_resources

from gpugoblin.errors import StoreError
from server_stub.node.arrays import (
    RESULT_MEMBER,
    Kind,
    box_bytes,
    create_result,
    describe,
    discard,
    open_array,
    publish,
    read_box,
    write_box,
)
from server_stub.node.work import ArrayFile, Box

DATA = np.arange(7 * 11, dtype=np.float32).reshape(7, 11)
BOX = Box((2, 3), (6, 10))


def make(tmp_path: Path, kind: str) -> ArrayFile:
    path = tmp_path / f"in.{kind}"
    if kind == "npy":
        np.save(path, DATA)
        return describe("npy", str(path))
    if kind == "raw":
        path.write_bytes(b"head" + DATA.tobytes())
        return describe("raw", str(path), dtype="float32", shape=DATA.shape, offset_bytes=4)
    if kind == "safetensors":
        safetensors.numpy.save_file({"other": DATA.T.copy(), "x": DATA}, path)
        return describe("safetensors", str(path), "x")
    store: dict[str, Any] = {
        "zarr3": {"zarr_format": 3, "chunks": (4, 4), "compressors": None},
        "zarr3_zstd": {"zarr_format": 3, "chunks": (3, 5)},
        "zarr3_shards": {"zarr_format": 3, "chunks": (2, 3), "shards": (4, 6)},
        "zarr2": {"zarr_format": 2, "chunks": (4, 4)},
    }[kind]
    array = zarr.create_array(str(path), shape=DATA.shape, dtype="float32", **store)
    array[:] = DATA
    return describe("zarr", str(path))


@pytest.fixture(autouse=True)
def _zarr_threads() -> Iterator[None]:
    """The library keeps a loop in a thread of its own until it is told to end it."""
    yield
    cleanup_resources()


KINDS = ["npy", "raw", "safetensors", "zarr3", "zarr3_zstd", "zarr3_shards", "zarr2"]


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_of_every_kind(tmp_path: Path, kind: str) -> None:
    file = make(tmp_path, kind)
    assert (file.dtype, file.shape) == ("float32", (7, 11))
    for box in (BOX, Box((0, 0), (7, 11)), Box((3, 5), (4, 6)), Box((2, 2), (2, 5))):
        where = tuple(slice(*pair) for pair in zip(box.start, box.stop, strict=True))
        assert bytes(read_box(file, box)) == DATA[where].tobytes()
        assert box_bytes(file, box) == DATA[where].nbytes
    layout = open_array(file)
    try:
        target = bytearray(40)
        layout.read(BOX, 13, 53, memoryview(target))
        layout.advise(BOX)
    finally:
        layout.close()
    assert target == DATA[2:6, 3:10].tobytes()[13:53]


def test_member_of_a_zarr_group(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "g"))
    group.create_array("inner", shape=(3,), chunks=(2,), dtype="int64")[:] = np.arange(3)
    file = describe("zarr", str(tmp_path / "g"), "inner")
    assert np.frombuffer(read_box(file, Box((1,), (3,))), "<i8").tolist() == [1, 2]
    with pytest.raises(StoreError) as caught:
        describe("zarr", str(tmp_path / "g"))
    assert caught.value.code == "array_member"
    assert "inner" in str(caught.value)


def test_missing_chunks_read_as_fill_value(tmp_path: Path) -> None:
    path = str(tmp_path / "z")
    array = zarr.create_array(
        path, shape=(6,), chunks=(2,), dtype="float32", compressors=None, fill_value=np.nan
    )
    array[2:4] = [1.0, 2.0]
    got = np.frombuffer(read_box(describe("zarr", path), Box((1,), (6,))), "<f4")
    np.testing.assert_array_equal(got, [np.nan, 1, 2, np.nan, np.nan])


def test_scalar_and_empty(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.float32(3))
    file = describe("npy", str(tmp_path / "s.npy"))
    assert np.frombuffer(read_box(file, Box((), ())), "<f4").tolist() == [3]
    np.save(tmp_path / "e.npy", np.zeros((0, 4), np.int32))
    file = describe("npy", str(tmp_path / "e.npy"))
    assert read_box(file, Box((0, 0), (0, 4))) == b""


def refusal(*given: Any, **named: Any) -> str:
    with pytest.raises(StoreError) as caught:
        describe(*given, **named)
    return caught.value.code


def test_what_cannot_be_read(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x93NUMPY\x01\x00junk that is no header" * 3)
    big = tmp_path / "big"
    big.write_bytes(b"\xff" * 64)
    for kind in ("npy", "zarr", "safetensors"):
        assert refusal(kind, str(tmp_path / "missing")) == "array_unreadable"
        assert refusal(kind, str(junk)) == "array_unreadable"
        assert refusal(kind, str(big)) == "array_unreadable"
    assert refusal("npy", str(tmp_path)) == "array_unreadable"
    assert refusal("zarr", str(tmp_path)) == "array_unreadable"
    assert refusal("raw", str(junk)) == "array_dtype"
    (tmp_path / "z").mkdir()
    for name, content in (("zarr.json", "{"), ("zarr.json", "[]"), ("zarr.json", "{}")):
        (tmp_path / "z" / name).write_text(content)
        assert refusal("zarr", str(tmp_path / "z")) == "array_unreadable"
    (tmp_path / "z2").mkdir()
    (tmp_path / "z2" / ".zarray").write_text('{"shape": [2]}')
    assert refusal("zarr", str(tmp_path / "z2")) == "array_unreadable"


def test_malformed_safetensors_entries(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for entry in (
        {"dtype": "F32", "shape": [2]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 9]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]},
    ):
        text = json.dumps({"x": entry}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(64))
        assert refusal("safetensors", str(path), "x") == "array_unreadable"
    safetensors.numpy.save_file({"x": DATA}, path)
    assert refusal("safetensors", str(path), "y") == "array_member"


def test_dtypes_and_order(tmp_path: Path) -> None:
    np.save(tmp_path / "u2.npy", np.zeros(3, np.uint16))
    assert refusal("npy", str(tmp_path / "u2.npy")) == "array_dtype"
    np.save(tmp_path / "be.npy", np.zeros(3, ">f4"))
    assert refusal("npy", str(tmp_path / "be.npy")) == "array_dtype"
    np.save(tmp_path / "fo.npy", np.asfortranarray(DATA))
    assert refusal("npy", str(tmp_path / "fo.npy")) == "array_order"
    np.save(tmp_path / "v.npy", np.asfortranarray(DATA[:, :1]))
    assert describe("npy", str(tmp_path / "v.npy")).shape == (7, 1)
    safetensors.numpy.save_file({"x": np.zeros(3, np.uint16)}, tmp_path / "h")
    assert refusal("safetensors", str(tmp_path / "h"), "x") == "array_dtype"
    zarr.create_array(str(tmp_path / "z"), shape=(3,), chunks=(3,), dtype="uint16")
    assert refusal("zarr", str(tmp_path / "z")) == "array_dtype"


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "float16", "float64"])
def test_dtypes_are_described(tmp_path: Path, dtype: str) -> None:
    array = np.arange(3).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    safetensors.numpy.save_file({"x": array}, tmp_path / "a.safetensors")
    zarr.create_array(str(tmp_path / "z"), shape=(3,), chunks=(3,), dtype=dtype)
    assert describe("npy", str(tmp_path / "a.npy")).dtype == dtype
    assert describe("safetensors", str(tmp_path / "a.safetensors"), "x").dtype == dtype
    assert describe("zarr", str(tmp_path / "z")).dtype == dtype


@pytest.mark.parametrize("kind", ["npy", "raw", "safetensors", "zarr3"])
def test_truncated_files(tmp_path: Path, kind: str) -> None:
    file = make(tmp_path, kind)
    path = Path(file.path)
    if kind == "zarr3":
        path = path / "c" / "0" / "0"
        os.truncate(path, 10)
        with pytest.raises(StoreError) as caught:
            read_box(file, Box((0, 0), (7, 11)))
    else:
        os.truncate(path, path.stat().st_size - 1)
        with pytest.raises(StoreError) as caught:
            open_array(file)
    assert caught.value.code == "array_truncated"


def test_files_that_changed_since(tmp_path: Path) -> None:
    file = make(tmp_path, "npy")
    np.save(file.path, DATA.T.copy())
    with pytest.raises(StoreError) as caught:
        open_array(file)
    assert caught.value.code == "array_file_changed"


def test_boxes_are_checked(tmp_path: Path) -> None:
    file = make(tmp_path, "npy")
    for box in (Box((0,), (1,)), Box((-1, 0), (1, 1)), Box((0, 0), (8, 1)), Box((3, 0), (2, 1))):
        with pytest.raises(StoreError) as caught:
            read_box(file, box)
        assert caught.value.code == "array_box"
    with pytest.raises(StoreError):
        write_box(file, BOX, b"too short")


RESULTS: list[Kind] = ["npy", "raw", "zarr", "safetensors"]


@pytest.mark.parametrize("kind", RESULTS)
def test_results_are_made_filled_and_published(tmp_path: Path, kind: Kind) -> None:
    final = str(tmp_path / "deep" / "out")
    result = create_result(kind, final, "float32", DATA.shape, tile=(4, 4))
    assert not Path(final).exists()
    for top in range(0, 7, 4):
        for left in range(0, 11, 4):
            box = Box((top, left), (min(7, top + 4), min(11, left + 4)))
            where = tuple(slice(*pair) for pair in zip(box.start, box.stop, strict=True))
            write_box(result, box, DATA[where].tobytes())
            assert bytes(read_box(result, box)) == DATA[where].tobytes()
    done = publish(result, final)
    assert publish(result, final) == done
    assert bytes(read_box(done, Box((0, 0), DATA.shape))) == DATA.tobytes()
    if kind == "npy":
        np.testing.assert_array_equal(np.load(final), DATA)
    elif kind == "zarr":
        np.testing.assert_array_equal(zarr.open_array(final, mode="r")[:], DATA)
        assert zarr.open_array(final, mode="r").chunks == (4, 4)
    elif kind == "safetensors":
        loaded = safetensors.numpy.load_file(final)
        np.testing.assert_array_equal(loaded[RESULT_MEMBER], DATA)
    discard(done)
    discard(done)
    assert not Path(final).exists()


def test_two_may_delete_one_result_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = create_result("zarr", str(tmp_path / "out"), "float32", DATA.shape, tile=(4, 4))
    real, calls = shutil.rmtree, []

    def overtaken(path: Path) -> None:
        calls.append(path)
        if len(calls) == 1:
            next(path.iterdir()).unlink()  # the other one was faster with this file
            raise FileNotFoundError(2, "it is gone", str(path))
        real(path)

    monkeypatch.setattr(shutil, "rmtree", overtaken)
    discard(result)
    assert len(calls) == 2
    assert not Path(result.path).exists()


@pytest.mark.parametrize("kind", RESULTS)
def test_boxes_that_cross_tiles(tmp_path: Path, kind: Kind) -> None:
    result = create_result(kind, str(tmp_path / "out"), "float32", DATA.shape, tile=(4, 4))
    write_box(result, BOX, DATA[2:6, 3:10].tobytes())
    got = np.frombuffer(read_box(result, Box((0, 0), DATA.shape)), "<f4").reshape(DATA.shape)
    expected = np.zeros_like(DATA)
    expected[2:6, 3:10] = DATA[2:6, 3:10]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,)])
def test_results_of_other_types(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    for kind in RESULTS:
        final = str(tmp_path / kind)
        done = publish(create_result(kind, final, dtype, shape, tile=shape), final)
        if kind != "raw":
            assert describe(kind, final, done.member) == done
        if kind == "zarr":
            assert zarr.open_array(final, mode="r").dtype == np.dtype(dtype)


def test_existing_results_are_kept(tmp_path: Path) -> None:
    final = tmp_path / "out"
    final.write_bytes(b"precious")
    with pytest.raises(StoreError) as caught:
        create_result("npy", str(final), "float32", (3,))
    assert caught.value.code == "array_exists"
    result = create_result("npy", str(final), "float32", (3,), overwrite=True)
    with pytest.raises(StoreError):
        publish(result, str(final))
    assert final.read_bytes() == b"precious"
    publish(result, str(final), overwrite=True)
    assert np.load(final).shape == (3,)


def test_zarr_results_replace_directories(tmp_path: Path) -> None:
    final = str(tmp_path / "z")
    publish(create_result("zarr", final, "int32", (4,), tile=(2,)), final)
    again = create_result("zarr", final, "int32", (6,), tile=(2,), overwrite=True)
    assert publish(again, final, overwrite=True).shape == (6,)
    assert zarr.open_array(final, mode="r").shape == (6,)


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = namedtuple("status", "f_bavail f_frsize")
    monkeypatch.setattr(os, "statvfs", lambda _: status(10, 4096))
    for kind in RESULTS:
        with pytest.raises(StoreError) as caught:
            create_result(kind, str(tmp_path / "big"), "float32", (1000, 1000), tile=(10, 10))
        assert caught.value.code == "disk_full"


def test_compressed_results_are_refused(tmp_path: Path) -> None:
    file = make(tmp_path, "zarr3_zstd")
    with pytest.raises(StoreError) as caught:
        write_box(file, BOX, DATA[2:6, 3:10].tobytes())
    assert caught.value.code == "array_unreadable"


@pytest.mark.parametrize("kind", ["npy", "zarr", "safetensors"])
@pytest.mark.parametrize("what", ["directory", "group", "link"])
def test_overwriting_deletes_no_directory(tmp_path: Path, kind: Kind, what: str) -> None:
    """A path that names something else by mistake must not cost that something."""
    place = tmp_path / "precious"
    real = tmp_path / "real" if what == "link" else place
    real.mkdir()
    (real / "thesis.tex").write_text("years of work", encoding="ascii")
    if what == "group":
        zarr.create_group(str(real), overwrite=False)
    if what == "link":
        place.symlink_to(real)
    with pytest.raises(StoreError) as error:
        create_result(kind, str(place), "float32", (4,), overwrite=True)
    assert error.value.code == "array_not_replaced"
    made = create_result(kind, str(tmp_path / "new"), "float32", (4,))
    with pytest.raises(StoreError):
        publish(made, str(place), overwrite=True)
    assert (real / "thesis.tex").read_text(encoding="ascii") == "years of work"


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_a_zarr_result_replaces_no_file(tmp_path: Path, kind: str) -> None:
    place = tmp_path / f"other.{kind}"
    place.write_bytes(b"x")
    with pytest.raises(StoreError) as error:
        create_result("zarr", str(place), "float32", (4,), overwrite=True)
    assert error.value.code == "array_not_replaced"


def test_a_huge_npy_header_is_not_read(tmp_path: Path) -> None:
    place = tmp_path / "huge.npy"
    with place.open("wb") as file:
        file.write(b"\x93NUMPY\x02\x00" + (2**32 - 2).to_bytes(4, "little"))
        file.truncate(2**33)
    with pytest.raises(StoreError) as error:
        describe("npy", str(place))
    assert error.value.code == "array_unreadable"
    assert "plausible" in str(error.value)
