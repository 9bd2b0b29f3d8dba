"""The loops that were compiled when the package was built: the shared library itself.

Owns: finding and opening it. There is none of Python in it; where nobody could compile it there is
none, and the kernels do the same in NumPy. Must not: know what its functions do.
"""

from __future__ import annotations

import ctypes
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

__all__ = ["LIBRARY", "library"]


def library(directory: Path) -> ctypes.CDLL | None:
    """The library of a directory; None where it was not compiled, or not for this machine."""
    for suffix in EXTENSION_SUFFIXES:
        file = directory / f"_loops{suffix}"
        if file.is_file():
            try:
                return ctypes.CDLL(str(file))
            except OSError:
                return None
    return None


LIBRARY: Final = library(Path(__file__).parent)
