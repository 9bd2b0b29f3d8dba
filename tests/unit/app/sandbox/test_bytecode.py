"""Byte code without a trace of this machine."""

from __future__ import annotations

import importlib.util
import marshal
import os
import py_compile
from pathlib import Path

from app.sandbox.bytecode import compiled

TEXT = b"def outer():\n    def inner():\n        return 41 + 1\n    return inner()\n"


def _names(code: object) -> set[str]:
    found = {code.co_filename}  # type: ignore[attr-defined]
    for constant in code.co_consts:  # type: ignore[attr-defined]
        if hasattr(constant, "co_filename"):
            found |= _names(constant)
    return found


def _check(data: bytes | None) -> None:
    assert data is not None
    assert data[:4] == importlib.util.MAGIC_NUMBER
    assert data[4:8] == b"\x01\0\0\0"  # hash-based, not checked (PEP 552)
    assert data[8:16] == importlib.util.source_hash(TEXT)
    code = marshal.loads(data[16:])  # noqa: S302
    assert _names(code) == {"/runtime/x.py"}
    space: dict[str, object] = {}
    exec(code, space)  # noqa: S102
    assert space["outer"]() == 42  # type: ignore[operator]


def test_fresh_source_is_compiled(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_bytes(TEXT)
    _check(compiled(source, TEXT, "/runtime/x.py"))


def test_installed_code_is_taken_and_renamed(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_bytes(TEXT)
    py_compile.compile(str(source), doraise=True)
    data = compiled(source, TEXT, "/runtime/x.py")
    _check(data)
    assert data is not None
    assert str(tmp_path).encode() not in data


def test_installed_code_of_another_source_is_not_taken(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_bytes(b"raise SystemExit\n")
    py_compile.compile(str(source), doraise=True)
    source.write_bytes(TEXT)
    os.utime(source, (1, 1))
    _check(compiled(source, TEXT, "/runtime/x.py"))


def test_damaged_installed_code_is_not_taken(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_bytes(TEXT)
    cached = Path(py_compile.compile(str(source), doraise=True) or "")
    whole = cached.read_bytes()
    for damaged in (whole[:10], b"xxxx" + whole[4:], whole[:17], whole[:16] + marshal.dumps(5)):
        cached.write_bytes(damaged)
        _check(compiled(source, TEXT, "/runtime/x.py"))


def test_what_does_not_compile_is_left_as_source(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_bytes(b"def (:\n")
    assert compiled(source, b"def (:\n", "/runtime/x.py") is None
