"""Compiled kernels of cards on disk, by card: only what an engine exported that warmed up.

Owns: the files, and that a damaged one is as none. Must not: know what lies in them: a driver wrote
it, and the engine compares its header before a driver gets it back.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from app.agent.state import write_kept
from gpugoblin.errors import AgentError
from gpugoblin.hashing import digest
from gpugoblin.units import MIB

__all__ = ["MOST_BYTES", "KernelStore"]

MOST_BYTES: Final = 32 * MIB
DOMAIN: Final = "gpugoblin 2026-12 compiled kernels"
NAMES: Final = "gpugoblin 2026-12 names of cards"


class KernelStore:
    """Of one state directory. Blocks for the disk."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, identity: str, data: bytes) -> str:
        """The hash under which it is found again; empty where it cannot be kept."""
        if not data or len(data) > MOST_BYTES or not self._directory.is_dir():
            return ""
        try:
            write_kept(self._path(identity), data)
        except AgentError:
            return ""
        return digest(DOMAIN, [identity.encode(), data])

    def load(self, identity: str, wanted: str) -> bytes | None:
        """What was kept under this hash; None where the file is another or damaged: it goes."""
        path = self._path(identity)
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError:
            return None
        if wanted and digest(DOMAIN, [identity.encode(), data]) == wanted:
            return data
        with contextlib.suppress(OSError):  # it is overwritten by the next warm-up at the latest
            path.unlink()
        return None

    def _path(self, identity: str) -> Path:
        return self._directory / f"kernels-{digest(NAMES, [identity.encode()])[:16]}.bin"
