"""Names of content: equal for equal content, different for anything else."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.capture.hashing import (
    fingerprint_array,
    fingerprint_directory,
    fingerprint_file,
    pieces,
)

NUMBERS = np.arange(24, dtype=np.int32).reshape(4, 6)


def test_an_array_is_named_by_dtype_shape_and_bytes() -> None:
    different = [
        NUMBERS, NUMBERS.reshape(6, 4), NUMBERS.view(np.float32), NUMBERS.astype(np.int64),
        NUMBERS + 1, NUMBERS[:0], NUMBERS[0],
    ]  # fmt: skip
    assert len({fingerprint_array(array) for array in different}) == len(different)


def test_layout_does_not_matter() -> None:
    for same in (np.asfortranarray(NUMBERS), np.repeat(NUMBERS, 2, axis=0)[::2], NUMBERS.copy()):
        assert fingerprint_array(same) == fingerprint_array(NUMBERS)


@pytest.mark.parametrize("piece_bytes", [1, 7, 24, 100, 1000])
@pytest.mark.parametrize("array", [NUMBERS, NUMBERS.T, NUMBERS[:, ::2], np.float32(3).reshape(())])
def test_pieces_are_the_bytes_in_order(array: np.ndarray, piece_bytes: int) -> None:  # type: ignore[type-arg]
    found = list(pieces(array, piece_bytes))
    assert b"".join(found) == array.tobytes()
    row = array.nbytes // max(1, len(array) if array.ndim else 1)
    assert max(map(len, found)) <= max(piece_bytes, row)


def test_nothing_has_no_pieces() -> None:
    assert list(pieces(NUMBERS[:0], 10)) == []


def test_a_file_is_named_by_its_facts(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    first = fingerprint_file("npy", str(path), b"h")
    assert fingerprint_file("npy", str(path), b"h") == first
    assert fingerprint_file("raw", str(path), b"h") != first
    assert fingerprint_file("npy", str(path), b"i") != first
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert fingerprint_file("npy", str(path), b"h") != first
    with pytest.raises(FileNotFoundError):
        fingerprint_file("npy", str(tmp_path / "b"), b"")


def test_a_directory_is_named_by_all_its_files(tmp_path: Path) -> None:
    chunk = tmp_path / "c" / "0" / "1"
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"abc")
    first = fingerprint_directory("zarr", str(tmp_path), b"")
    assert fingerprint_directory("zarr", str(tmp_path), b"") == first
    chunk.write_bytes(b"abcd")
    second = fingerprint_directory("zarr", str(tmp_path), b"")
    (chunk.parent / "2").write_bytes(b"")
    third = fingerprint_directory("zarr", str(tmp_path), b"")
    assert len({first, second, third}) == 3
