"""What this engine is: its build, its catalog, its kernels.

Owns: the three names that travel with every result. Must not: depend on the machine: two
contributors with one build say the same.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from gpugoblin import __version__
from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.hashing import digest

__all__ = ["build_name", "catalog", "kernel_set"]

DOMAIN: Final = "gpugoblin 2026-11 kernels"


def build_name() -> str:
    """`engine-0.1.0`."""
    return f"engine-{__version__}"


def catalog() -> str:
    """The hash of the catalog that this engine computes."""
    return catalog_hash()


@cache
def kernel_set(backend: str) -> str:
    """The hash of the sources that turn a graph into numbers: compiler and the backend's kernels.

    Returns:
        64 hexadecimal digits.
    """
    here = Path(__file__).resolve().parent
    sources = [here / name for name in ("compile.py", "fusion.py", "program.py", "pool.py")]
    family = backend.partition(":")[0]
    for folder in (family,) if family == "cpu" else ("card", family):
        sources += sorted((here / "backends" / folder).glob("*.py"))
    parts: list[bytes] = []
    for source in sources:
        content = source.read_bytes()
        parts += [source.name.encode(), len(content).to_bytes(8, "little"), content]
    return digest(DOMAIN, parts)
