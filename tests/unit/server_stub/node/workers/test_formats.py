"""Headers of files."""

from __future__ import annotations

import ctypes
import errno
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.errors import StoreError
from server_stub.node.workers.formats import (
    create_npy,
    create_raw,
    create_safetensors,
    create_zarr,
    dtype_name,
    read_npy,
    read_safetensors,
    read_zarr,
)


def test_npy_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    offset = create_npy(path, "int64", (3, 4))
    assert offset % 64 == 0
    header = read_npy(path)
    assert (header.dtype, header.shape, header.offset_bytes) == ("int64", (3, 4), offset)
    assert np.load(path).sum() == 0


def test_npy_version_2(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.zeros(3, np.float32), version=(2, 0))
    assert read_npy(path).shape == (3,)


def test_safetensors_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "x"
    offset = create_safetensors(path, "bool", (5,), "flags")
    header = read_safetensors(path, "")
    assert (header.dtype, header.shape, header.offset_bytes) == ("bool", (5,), offset)
    assert offset % 8 == 0


def test_zarr_round_trip(tmp_path: Path) -> None:
    create_zarr(tmp_path / "z", "float32", (5, 6), (2, 0))
    header = read_zarr(tmp_path / "z", "")
    assert (header.dtype, header.shape, header.chunks) == ("float32", (5, 6), (2, 1))
    assert header.fill == 0.0


def test_raw_has_its_room_and_reads_as_zeros(tmp_path: Path) -> None:
    assert create_raw(tmp_path / "x", "float32", (1024, 1024)) == 0
    status = (tmp_path / "x").stat()
    assert status.st_size == 4 * 1024**2
    assert status.st_blocks * 512 >= 4 * 1024**2
    assert not any((tmp_path / "x").read_bytes())


@pytest.mark.parametrize(
    ("number", "is_refused"), [(errno.EOPNOTSUPP, False), (errno.ENOSPC, True)]
)
def test_a_file_system_that_cannot_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_refused: bool
) -> None:
    class Libc:
        def fallocate(self, *_: object) -> int:
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Libc())
    if is_refused:
        with pytest.raises(StoreError, match="disk"):
            create_raw(tmp_path / "x", "float32", (16,))
    else:
        create_raw(tmp_path / "x", "float32", (16,))
        assert (tmp_path / "x").stat().st_size == 64


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    create_raw(tmp_path / "x", "float32", (3,))
    for again in (
        lambda: create_raw(tmp_path / "x", "float32", (3,)),
        lambda: create_zarr(tmp_path / "x", "float32", (3,), (3,)),
    ):
        with pytest.raises(StoreError) as caught:
            again()
        assert caught.value.code == "disk_failed"


def test_dtype_names() -> None:
    assert dtype_name(Path("x"), np.dtype("<i4")) == "int32"
    with pytest.raises(StoreError) as caught:
        dtype_name(Path("x"), np.dtype("c8"))
    assert caught.value.code == "array_dtype"


def unreadable(read: Callable[[], object]) -> str:
    with pytest.raises(StoreError) as caught:
        read()
    assert caught.value.code == "array_unreadable"
    return str(caught.value)


@pytest.mark.parametrize("size", [9 << 20, 4096, 1 << 63])
def test_a_safetensors_header_is_bounded_by_its_file_and_by_us(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", size) + b"{}")
    assert "not plausible" in unreadable(lambda: read_safetensors(path, ""))
    with path.open("r+b") as file:
        file.truncate(10 << 20)
    if size > 4096:
        assert "not plausible" in unreadable(lambda: read_safetensors(path, ""))


@pytest.mark.parametrize("shape", [[1 << 40] * 33, [1 << 62], [-1], 7])
def test_shapes_that_no_array_has(tmp_path: Path, shape: object) -> None:
    text = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
    assert "malformed" in unreadable(lambda: read_safetensors(path, "x"))
    root = tmp_path / "z.zarr"
    root.mkdir()
    (root / "zarr.json").write_text(json.dumps({"shape": shape, "data_type": "float32"}))
    assert "malformed" in unreadable(lambda: read_zarr(root, ""))


@pytest.mark.parametrize("name", ["zarr.json", ".zarray"])
def test_a_zarr_header_is_bounded_before_it_is_read(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 40)
    assert "larger than" in unreadable(lambda: read_zarr(tmp_path, ""))
