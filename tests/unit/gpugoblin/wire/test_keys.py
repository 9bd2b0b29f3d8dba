"""Key files: made once, private, whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gpugoblin.errors import WireError
from gpugoblin.wire.keys import load_key, load_or_make_key, make_key, write_private
from gpugoblin.wire.signing import public_key_bytes


def test_a_key_is_made_once_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "device.key"
    first = load_or_make_key(path)
    assert public_key_bytes(load_or_make_key(path)) == public_key_bytes(first)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == ["device.key"]


def test_two_at_once_end_with_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "device.key"
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(public_key_bytes(load_or_make_key(path))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 8


def test_what_is_there_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_private(path, b"first")
    write_private(path, b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "content", [b"", b"ab", b"AB" * 32, b"zz" * 32, b"ab" * 33, b"\xff" * 64, b"ab" * 32 + b"\n\n"]
)
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "device.key"
    write_private(path, content)
    with pytest.raises(WireError) as caught:
        load_or_make_key(path)
    assert caught.value.code == "key_file_unreadable"
    assert path.read_bytes() == content


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "device.key"
    load_or_make_key(path)
    path.chmod(0o640)
    with pytest.raises(WireError, match="chmod 600"):
        load_key(path)


def test_no_file_and_no_directory(tmp_path: Path) -> None:
    with pytest.raises(WireError) as caught:
        load_key(tmp_path / "none")
    assert caught.value.code == "key_file_unreadable"
    blocking = tmp_path / "file"
    blocking.write_bytes(b"")
    with pytest.raises(WireError) as caught:
        load_or_make_key(blocking / "device.key")
    assert caught.value.code == "key_file_unreadable"


def test_keys_differ() -> None:
    assert public_key_bytes(make_key()) != public_key_bytes(make_key())
