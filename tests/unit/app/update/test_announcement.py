from __future__ import annotations

import pytest

from app.update.announcement import MAX_BYTES, Announcement, decode, is_newer


def test_an_announcement_is_a_version_and_a_page() -> None:
    assert decode(b'{"version": "1.2.3"}') == Announcement("1.2.3")
    assert decode(b'{"version": "1.2", "page": "https://a/b"}').page == "https://a/b"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b'{"version": "1"}', b'{"version": "1.2\\n"}', b'{"version": "v1.2"}',
        b'{"version": "1.2", "page": "http://a"}', b'{"version": "1.2", "page": "https://a b"}',
        b'{"version": "1.2", "run": "x"}', b'{"version": "1.2"}' + b" " * MAX_BYTES,
    ],
)  # fmt: skip
def test_anything_else_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)


@pytest.mark.parametrize(
    ("version", "own", "newer"),
    [
        ("1.2.0", "1.1.9", True), ("1.10", "1.9.9", True), ("1.2", "1.2.0", False),
        ("1.2.0", "1.2", False), ("0.9", "1.0", False), ("1.2.1", "1.2.0+local", True),
        ("1.2.0", "1.2.0.dev3", False),
    ],
)  # fmt: skip
def test_which_is_newer(version: str, own: str, newer: bool) -> None:
    assert is_newer(version, own) is newer
