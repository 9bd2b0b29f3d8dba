"""Headers of files: what they say, and every way in which they can lie."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from gpugoblin.client.headers import read_npy, read_safetensors, read_zarr
from gpugoblin.errors import StoreError


def npy(tmp_path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Path:
    path = tmp_path / "a.npy"
    np.save(path, array)
    return path


def npy_bytes(text: str, version: int = 1) -> bytes:
    header = text.encode()
    width = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(width, "little") + header


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["<f4", "<i8", "|b1", ">f4", "<f8"])
def test_npy(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    header = read_npy(str(npy(tmp_path, np.zeros(shape, dtype))))
    assert (header.dtype, header.shape, header.column_major) == (dtype, shape, False)
    assert header.offset_bytes == len(header.raw)


def test_npy_in_column_major_order(tmp_path: Path) -> None:
    array = np.asfortranarray(np.zeros((2, 3), np.float32))
    assert read_npy(str(npy(tmp_path, array))).column_major


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "file_malformed"), (b"\x93NUMPX" + b"\0" * 20, "file_malformed"),
        (npy_bytes("{}"), "file_malformed"), (npy_bytes("1 +"), "file_malformed"),
        (b"\x93NUMPY\x01\0\xff\xff", "file_malformed"),
        (b"\x93NUMPY\x01\0\xff\x00{'a", "file_truncated"),
        (b"\x93NUMPY\x09\0\x10\x00" + b" " * 16, "file_malformed"),
        (b"\x93NUMPY\x02\0\xff\xff\xff\xff{}", "file_malformed"),
        (npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}"), "file_truncated"),
        (npy_bytes("{'descr': '<f4', 'fortran_order': 0, 'shape': (9,)}"), "file_malformed"),
        (npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "file_malformed"),
        (npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': 3}"), "file_malformed"),
        (npy_bytes("{'descr': 'xyz', 'fortran_order': False, 'shape': ()}"), "file_malformed"),
        (npy_bytes("{'descr': '|O', 'fortran_order': False, 'shape': ()}"), "file_malformed"),
        (
            npy_bytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"),
            "file_malformed",
        ),
    ],
)  # fmt: skip
def test_npy_that_is_none(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        read_npy(str(path))
    assert caught.value.code == code
    assert str(path) in str(caught.value)


@given(tail=st.binary(max_size=200))
def test_no_bytes_crash_the_npy_reader(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.npy"
    path.write_bytes(b"\x93NUMPY\x01\0" + tail)
    with contextlib.suppress(StoreError):
        read_npy(str(path))


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {"x": np.ones((2, 3), np.float32), "y": np.arange(4), "z": np.array(True)}
    save_file(tensors, path, metadata={"made": "here"})
    headers = read_safetensors(str(path))
    assert set(headers) == set(tensors)
    data = path.read_bytes()
    for name, array in tensors.items():
        header = headers[name]
        assert (header.dtype, header.shape) == (array.dtype.str, array.shape)
        at = header.offset_bytes
        assert data[at : at + array.nbytes] == array.tobytes()


def safetensors_bytes(header: object) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"abc", "file_malformed"), (b"\xff" * 8, "file_malformed"),
        ((100).to_bytes(8, "little") + b"{}", "file_truncated"),
        (safetensors_bytes(b"not json"), "file_malformed"),
        (safetensors_bytes([]), "file_malformed"),
        (safetensors_bytes({"x": 3}), "file_malformed"),
        (safetensors_bytes({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}),
         "file_malformed"),
        (safetensors_bytes({"x": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}),
         "file_malformed"),
        (safetensors_bytes({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}),
         "file_malformed"),
        (safetensors_bytes({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}),
         "file_truncated"),
    ],
)  # fmt: skip
def test_safetensors_that_are_none(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        read_safetensors(str(path))
    assert caught.value.code == code


@pytest.mark.parametrize("version", [2, 3])
def test_zarr(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.zarr"
    zarr.create_array(
        store=path,
        shape=(4, 6),
        dtype="float32",
        chunks=(2, 3),
        zarr_format=version,  # type: ignore[arg-type]
    )
    header = read_zarr(str(path))
    assert (np.dtype(header.dtype), header.shape) == (np.dtype("<f4"), (4, 6))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("other", "{}"), ("zarr.json", "["), ("zarr.json", '{"node_type": "group"}'),
        ("zarr.json", '{"node_type": "array", "shape": [1]}'),
        (".zarray", '{"shape": "x", "dtype": "<f4"}'), (".zarray", " " * (1024 * 1024 + 1)),
    ],
)  # fmt: skip
def test_zarr_that_is_none(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(StoreError) as caught:
        read_zarr(str(tmp_path))
    assert caught.value.code == "file_malformed"


def test_an_unreadable_file_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file") as caught:
        read_npy(str(tmp_path / "none"))
    assert caught.value.code == "file_unreadable"
