"""Compiled kernels on disk: whole, this card's own, or none."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from app.agent.kernel_store import MOST_BYTES, KernelStore


def only_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    wanted = KernelStore(tmp_path).keep("gpu", b"compiled")
    assert KernelStore(tmp_path).load("gpu", wanted) == b"compiled"
    assert stat.S_IMODE(only_file(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [b"", b"compilee", b"compiled and more", bytes(1000)])
def test_a_damaged_file_is_refused_and_goes(tmp_path: Path, damage: bytes) -> None:
    store = KernelStore(tmp_path)
    wanted = store.keep("gpu", b"compiled")
    only_file(tmp_path).write_bytes(damage)
    assert store.load("gpu", wanted) is None
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_another_card_is_refused(tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    store.keep("gpu", b"compiled")
    other = store.keep("other", b"compiled")
    assert store.load("gpu", other) is None
    assert store.load("other", other) == b"compiled"


def test_without_a_hash_nothing_is_loaded(tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    store.keep("gpu", b"compiled")
    assert store.load("gpu", "") is None


def test_what_is_too_large_or_has_no_place_is_not_kept(tmp_path: Path) -> None:
    assert KernelStore(tmp_path).keep("gpu", bytes(MOST_BYTES + 1)) == ""
    assert KernelStore(tmp_path).keep("gpu", b"") == ""
    assert KernelStore(tmp_path / "missing").keep("gpu", b"compiled") == ""
    assert list(tmp_path.iterdir()) == []
