"""Durable files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpugoblin.blobs.files import (
    durable_write,
    free_bytes,
    io_errors,
    pread_exact,
    pwrite_all,
    require_space,
)
from gpugoblin.errors import StoreError


def test_durable_write_replaces(tmp_path: Path) -> None:
    target = tmp_path / "file"
    durable_write(target, b"one")
    durable_write(target, b"two")
    assert target.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_short_writes_and_reads_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write, real_read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_write(fd, data[:3], at))
    monkeypatch.setattr(os, "preadv", lambda fd, into, at: real_read(fd, [into[0][:2]], at))
    descriptor = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    try:
        pwrite_all(descriptor, b"0123456789", 5)
        target = bytearray(20)
        assert pread_exact(descriptor, memoryview(target), 5) == 10
    finally:
        os.close(descriptor)
    assert target[:10] == b"0123456789"


def test_errors_are_translated(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught, io_errors(tmp_path / "missing"):
        (tmp_path / "missing").read_bytes()
    assert caught.value.code == "disk_failed"
    assert "missing" in str(caught.value)


def test_space(tmp_path: Path) -> None:
    free = free_bytes(tmp_path / "not" / "there")
    assert free > 0
    require_space(tmp_path, 1)
    with pytest.raises(StoreError) as caught:
        require_space(tmp_path, 1 << 62)
    assert caught.value.code == "disk_full"
