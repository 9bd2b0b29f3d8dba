"""What keeps the agent's process small beside everything else that its owner runs.

Owns: how its memory is taken from the system and given back, and packages that nothing here uses.
Must not: be asked for anywhere but at the start of the agent's own process.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import warnings
from typing import Final

__all__ = ["be_lean"]

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
LARGE_BYTES: Final = 512 * 1024
"""Above the pieces of a transfer, which come from the heap again and again; what is larger goes
back to the system at once. Left to itself the C library raises this bound to the largest block
that was ever freed, and keeps twice as much."""

UNUSED: Final = {
    "msgspec": ("typing_extensions",),
    "requests": ("chardet", "charset_normalizer"),
}
"""By package: what it takes where it is installed, and does without where it is not. Here nobody
declares types of other Pythons, and nobody guesses character sets: what the agent reads is JSON or
bytes. Three and a half MiB."""


def be_lean() -> None:
    """Call it before the packages of `UNUSED` are imported and before a thread is started.

    One heap for all threads: the agent's threads wait for the network or hold the interpreter's
    lock, so that heaps of their own only keep what nobody uses.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):  # another C library has no such heaps
            library.mallopt(_M_ARENA_MAX, 1)
            library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
            library.mallopt(_M_TRIM_THRESHOLD, LARGE_BYTES)
    for package, unused in UNUSED.items():
        if package not in sys.modules:
            _import_without(package, [name for name in unused if name not in sys.modules])


def _import_without(package: str, hidden: list[str]) -> None:
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # so that its import fails
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # requests says that it cannot guess
            importlib.import_module(package)
    finally:
        for name in hidden:
            del sys.modules[name]
