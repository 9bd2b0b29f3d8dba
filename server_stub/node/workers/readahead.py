"""How much of the system's own file cache a read-ahead may fill.

Owns: the answer. Must not: read ahead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpugoblin.units import KIB

__all__ = ["room_bytes"]

_SHARE: Final = 4
_MEMORY: Final = Path("/proc/meminfo")


def room_bytes(facts: Path = _MEMORY) -> int:
    """A quarter of the memory that is free or could be at once; 0 where the system does not say."""
    try:
        lines = facts.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * KIB // _SHARE
    return 0
