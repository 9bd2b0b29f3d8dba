"""Byte code for a private runtime: without a trace of where its source came from.

Owns: the making of one `.pyc`. Must not: read or write a file of the runtime.
"""

from __future__ import annotations

import importlib.util
import marshal
import struct
from pathlib import Path
from types import CodeType

__all__ = ["compiled"]

_HEADER = struct.Struct("<4sI8s")
_UNCHECKED_HASH = 0b01
"""The interpreter takes the code without a look at the source (PEP 552)."""


def _renamed(code: CodeType, filename: str) -> CodeType:
    constants = tuple(
        _renamed(constant, filename) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=filename, co_consts=constants)


def _installed(source: Path) -> CodeType | None:
    """The code that the installation compiled already, if it belongs to this very source."""
    try:
        cached = Path(importlib.util.cache_from_source(str(source))).read_bytes()
    except (OSError, NotImplementedError):
        return None
    if len(cached) < 16 or cached[:4] != importlib.util.MAGIC_NUMBER:
        return None
    flags, mtime_s, size_bytes = struct.unpack("<III", cached[4:16])
    status = source.stat()
    if flags or mtime_s != int(status.st_mtime) & 0xFFFFFFFF or size_bytes != status.st_size:
        return None
    try:
        code = marshal.loads(cached[16:])  # noqa: S302 (as trusted as the interpreter beside it)
    except (EOFError, ValueError, TypeError):
        return None
    return code if isinstance(code, CodeType) else None


def compiled(source: Path, text: bytes, filename: str) -> bytes | None:
    """The content of a `.pyc` for `source`, whose bytes are `text`.

    Args:
        filename: what tracebacks will show; no path of this machine.

    Returns:
        None if the source does not compile with this interpreter (the standard library carries
        templates and the like that never do).
    """
    code = _installed(source)
    if code is None:
        try:
            code = compile(text, filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return None
    body = marshal.dumps(_renamed(code, filename))
    digest = importlib.util.source_hash(text)
    return _HEADER.pack(importlib.util.MAGIC_NUMBER, _UNCHECKED_HASH, digest) + body
