"""Small files: bounded, and never an exception."""

from __future__ import annotations

from pathlib import Path

from app.probes.files import read_number, read_text


def test_texts_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert read_text(path) is None
    assert read_number(path) is None
    path.write_text(" 42 \n")
    assert (read_text(path), read_number(path)) == ("42", 42)
    path.write_bytes(b"\xff" * 100_000)
    assert len(read_text(path, 10) or "") == 10
    assert read_number(path) is None
    assert read_text(tmp_path) is None
