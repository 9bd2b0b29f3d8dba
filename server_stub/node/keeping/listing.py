"""The list of a backup: which files it has, and the hash of each.

Owns: the file `backup.jsonl`: a heading, one line for each file, and an end with their number, so
that one which was cut off shows. It is read line by line, each bounded. Must not: open a file of
the backup.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from gpugoblin.errors import NodeError

__all__ = ["FORMAT", "LIST_NAME", "End", "File", "Heading", "private_directory", "read", "write"]

FORMAT: Final = 1
LIST_NAME: Final = "backup.jsonl"
MAX_LINE_BYTES: Final = 16 * 1024

Line = TypeVar("Line", bound=Struct)


class Heading(Struct, frozen=True, forbid_unknown_fields=True):
    """What was copied, when, and by which program.

    Args:
        damaged: blobs that did not match their hash, and are left out.
        state_dir: where the node lay.
    """

    format: int
    version: str
    schema: str
    created_s: float
    state_dir: str
    lab: str
    damaged: tuple[str, ...] = ()


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """One file of the backup, by its path in it. `sha256` is of its bytes."""

    path: Annotated[str, Meta(max_length=4096)]
    nbytes: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class End(Struct, frozen=True, forbid_unknown_fields=True):
    """The last line: the list is whole."""

    files: Annotated[int, Meta(ge=0)]


def private_directory(root: Path, path: Path) -> None:
    """Makes `path` and what leads to it below `root`, closed to others."""
    for folder in reversed([path, *path.parents]):
        if folder.is_relative_to(root):
            folder.mkdir(mode=0o700, exist_ok=True)


def write(heading: Heading, files: list[File]) -> bytes:
    """The bytes of a list, which the caller writes last, durably."""
    lines: list[Struct] = [heading, *files, End(len(files))]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def read(source: Path) -> tuple[Heading, list[File]]:
    """The list of a backup, checked: it has an end, and no path leads out of the backup.

    Raises:
        NodeError: `backup_incomplete`.
    """
    try:
        with (source / LIST_NAME).open("rb") as file:
            lines = _lines(file, source)
            heading = _decode(Heading, next(lines, b""), source)
            if heading.format != FORMAT:
                raise _incomplete(source, f"its format {heading.format} is not {FORMAT}")
            files: list[File] = []
            for line in lines:
                if line.startswith(b'{"files"'):
                    _check_end(_decode(End, line, source), files, lines, source)
                    return heading, files
                files.append(_decode(File, line, source))
                _check_path(files[-1].path, source)
    except OSError as cause:
        raise _incomplete(source, f"{LIST_NAME}: {cause.strerror or cause}") from cause
    raise _incomplete(source, "its list has no end")


def _lines(file: Any, source: Path) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise _incomplete(source, "a line of its list is too long")
        yield line


def _decode(kind: type[Line], line: bytes, source: Path) -> Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise _incomplete(source, f"its list cannot be read ({cause})") from cause


def _check_end(end: End, files: list[File], rest: Iterator[bytes], source: Path) -> None:
    if end.files != len(files) or next(rest, None) is not None:
        raise _incomplete(source, "its list does not fit its end")


def _check_path(text: str, source: Path) -> None:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or "\0" in text or not path.parts:
        raise _incomplete(source, f"its list names {text[:80]!r}")


def _incomplete(source: Path, reason: str) -> NodeError:
    return NodeError("backup_incomplete", path=source, reason=reason)
