"""The settings file of an agent that runs: read at the start, and again when it was changed.

Owns: the file's path, and how it looked when it was read last. Must not: take what it says into
use; wake anybody: whoever is awake asks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from app.agent.settings import Settings, read_settings

__all__ = ["SettingsFile"]

LOOK_PERIOD_S: Final = 2.0
"""A file is looked at no more often than this."""


class SettingsFile:
    """One file, or none: then the defaults hold. `path`: as it was given."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._next_s = 0.0

    def read(self) -> Settings:
        """What it says now.

        Raises:
            SettingsError: as `read_settings`.
        """
        self._seen = self._look()  # before it is read: what is written meanwhile is seen next time
        return read_settings(self._path)

    def has_changed(self, now_s: float) -> bool:
        """Whether it is another than the one that was read last. `now_s`: monotonic."""
        if self._path is None or now_s < self._next_s:
            return False
        self._next_s = now_s + LOOK_PERIOD_S
        seen = self._look()
        return seen is not None and seen != self._seen  # None: an editor is just replacing it

    def _look(self) -> tuple[int, ...] | None:
        if self._path is None:
            return None
        try:
            facts = self._path.stat()
        except OSError:
            return None
        return facts.st_ino, facts.st_size, facts.st_mtime_ns
