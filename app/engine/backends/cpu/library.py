"""The loops that were compiled when the package was built: the shared library itself.

Owns: finding and opening it. There is none of Python in it; where nobody could compile it there is
none, and the kernels do the same in NumPy. Must not: know what its functions do.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

NAME: Final = "_loops.abi3.so"
"""One file for every version of Python, as setuptools names it."""

__all__ = ["LIBRARY", "library"]


def library(directory: Path) -> ctypes.CDLL | None:
    """The library of a directory; None where it was not compiled, or not for this machine."""
    file = directory / NAME
    if not file.is_file():
        return None
    try:
        return ctypes.CDLL(str(file))
    except OSError:
        return None


LIBRARY: Final = library(Path(__file__).parent)
