"""Small files of the kernel, read with a bound. Owns that; knows no file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["read_number", "read_text"]

MAX_BYTES: Final = 64 * 1024


def read_text(path: Path, most_bytes: int = MAX_BYTES) -> str | None:
    """The text of a small file, stripped; None when it is not there or cannot be read."""
    try:
        with path.open("rb", buffering=0) as file:
            return (file.read(most_bytes) or b"").decode("utf-8", "replace").strip()
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """The whole number in a small file; None when there is none."""
    text = read_text(path, 64)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
