"""One upload file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugoblin.blobs.upload import Upload
from gpugoblin.errors import StoreError


def test_empty_upload_is_complete_at_once(tmp_path: Path) -> None:
    with Upload(tmp_path / "up", 0) as upload:
        assert upload.progress().complete
        assert upload.complete_path() == tmp_path / "up"


def test_bytes_come_in_order(tmp_path: Path) -> None:
    with Upload(tmp_path / "up", 6) as upload:
        assert not upload.write(0, b"abc").complete
        assert upload.write(3, b"def").complete
        assert upload.complete_path().read_bytes() == b"abcdef"


def test_longer_than_announced(tmp_path: Path) -> None:
    (tmp_path / "up").write_bytes(b"1234567")
    with pytest.raises(StoreError) as caught:
        Upload(tmp_path / "up", 6).progress()
    assert caught.value.code == "upload_too_long"
