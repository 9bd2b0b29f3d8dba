"""What a private runtime is made of: which file of this machine goes where in it.

Owns: the choice of files, with the shared libraries that they need. Must not: copy or change any.

Layout: `bin/pythonX.Y`, `lib/` (the interpreter's own library and the standard library),
`system/` (loader and libraries of the host, used only where the host's are hidden), and `app/`
(NumPy and the few other packages, the engine, the walls).
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpugoblin.errors import SandboxError

__all__ = ["LOADER", "SourceFile", "chosen_files", "system_libraries"]

LOADER: Final = "/lib64/ld-linux-x86-64.so.2"
"""Where every program of this architecture names its loader (System V ABI, x86-64)."""

PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"

PACKAGES: Final = ("numpy", "msgspec", "blake3")
HOUSE_PACKAGES: Final = (
    "gpugoblin/error_codes",
    "gpugoblin/catalog",
    "gpugoblin/graph",
    "app/engine",
)
HOUSE_FILES: Final = (
    "gpugoblin/__init__.py",
    "gpugoblin/clock.py",
    "gpugoblin/errors.py",
    "gpugoblin/hashing.py",
    "gpugoblin/ids.py",
    "gpugoblin/units.py",
    "app/__init__.py",
    "app/sandbox/__init__.py",
    "app/sandbox/inside.py",
    "app/sandbox/landlock.py",
    "app/sandbox/seccomp.py",
    "app/sandbox/selftest.py",
    "app/sandbox/spec.py",
    "app/sandbox/stages.py",
    "app/sandbox/syscalls.py",
)

# Not needed by the engine: tests, tools, windows, and everything that speaks over a network.
_DROPPED_NAMES: Final = """
__pycache__ test tests _pyinstaller asyncio curses dbm dist-packages distutils ensurepip f2py http
idlelib lib2to3 multiprocessing pydoc_data site-packages sqlite3 tkinter turtledemo venv wsgiref
xmlrpc
"""
_DROPPED_DIRECTORIES: Final = frozenset(_DROPPED_NAMES.split())
_DROPPED_FILES: Final = re.compile(
    r"(_sysconfigdata.*|antigravity|ftplib|imaplib|nntplib|poplib|smtpd|smtplib|socket|socketserver"
    r"|ssl|telnetlib|turtle|this|webbrowser)\.py"
    r"|(_asyncio|_crypt|_curses|_curses_panel|_dbm|_gdbm|_hashlib|_multiprocessing|_posixshmem"
    r"|_socket|_sqlite3|_ssl|_test.*|_tkinter|_uuid|_xx.*|nis|ossaudiodev|readline|spwd|syslog"
    r"|xx.*)\..*\.so"
)
_SHARED_OBJECT: Final = re.compile(r".*\.so(\.[0-9]+)*")
_LISTED: Final = re.compile(r"\s*(\S+) (?:=> (\S+) )?\(0x[0-9a-f]+\)")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the runtime: where it goes, and where it comes from.

    `text`: what is put there instead of the source's own content, made from that alone.
    """

    target: str
    source: Path
    executable: bool = False
    text: bytes | None = None


def _wanted(name: str) -> bool:
    if _DROPPED_FILES.fullmatch(name):
        return False
    return name.endswith(".py") or _SHARED_OBJECT.fullmatch(name) is not None


def _walk(top: Path, target: str) -> Iterator[SourceFile]:
    for directory, subdirectories, names in os.walk(top):
        subdirectories[:] = sorted(
            name
            for name in subdirectories
            if name not in _DROPPED_DIRECTORIES and not name.startswith("config-")
        )
        relative = os.path.relpath(directory, top)
        place = target if relative == "." else f"{target}/{relative}"
        for name in sorted(names):
            if _wanted(name):
                yield SourceFile(f"{place}/{name}", Path(directory, name))


def _interpreter() -> Path:
    base = getattr(sys, "_base_executable", None) or sys.executable
    return Path(os.path.realpath(base))


def _standard_library() -> Iterator[SourceFile]:
    library = Path(sysconfig.get_path("stdlib"))
    target = f"lib/{PYTHON}"
    yield from _walk(library, target)
    extensions = Path(sysconfig.get_config_var("DESTSHARED") or library / "lib-dynload")
    if extensions.is_dir() and library not in extensions.parents:
        yield from _walk(extensions, f"{target}/lib-dynload")


def _package(name: str) -> Iterator[SourceFile]:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise SandboxError("runtime_package_missing", package=name)
    directory = Path(found.origin).parent
    yield from _walk(directory, f"app/{name}")
    libraries = directory.parent / f"{name}.libs"
    if libraries.is_dir():
        yield from _walk(libraries, f"app/{name}.libs")


def _house() -> Iterator[SourceFile]:
    top = Path(__file__).resolve().parents[2]
    for package in HOUSE_PACKAGES:
        yield from _walk(top / package, f"app/{package}")
    for name in HOUSE_FILES:
        yield SourceFile(f"app/{name}", top / name)


def system_libraries(files: list[SourceFile]) -> list[SourceFile]:
    """The shared libraries that `files` need and do not bring, and the loader itself.

    Asks the machine's own loader, one file after the other (about 2 ms each).
    """
    brought = {Path(file.target).name for file in files}
    needed: dict[str, Path] = {Path(LOADER).name: Path(os.path.realpath(LOADER))}
    for file in files:
        if not (file.executable or _SHARED_OBJECT.fullmatch(file.source.name)):
            continue
        listed = subprocess.run(
            [LOADER, "--list", str(file.source)],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        for line in listed.stdout.splitlines():
            match = _LISTED.fullmatch(line)
            if match is None or match[2] is None or match[1] in brought:
                continue
            needed.setdefault(Path(match[1]).name, Path(os.path.realpath(match[2])))
    own = {name for name in needed if name.startswith("libpython")}
    return [
        SourceFile(f"lib/{name}" if name in own else f"system/{name}", source)
        for name, source in sorted(needed.items())
    ]


def chosen_files() -> list[SourceFile]:
    """Everything but the system's libraries.

    Raises:
        SandboxError: `runtime_package_missing`.
    """
    files = [SourceFile(f"bin/{PYTHON}", _interpreter(), executable=True)]
    files += _standard_library()
    for package in PACKAGES:
        files += _package(package)
    files += _house()
    return files
