"""The time zone of this machine, as it is now: it may move with its owner. Owns that question."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["LocalZone"]

LOCALTIME: Final = Path("/etc/localtime")


class LocalZone:
    """Call it for the zone that `TZ` names or `localtime` holds; UTC where neither makes sense."""

    def __init__(self, localtime: Path = LOCALTIME) -> None:
        self._localtime = localtime
        self._key: tuple[str, int] | None = None
        self._zone: tzinfo = UTC

    def __call__(self) -> tzinfo:
        name = os.environ.get("TZ", "").lstrip(":")
        try:
            key = (name, 0 if name else self._localtime.stat().st_mtime_ns)
        except OSError:
            key = (name, 0)
        if key != self._key:
            self._key, self._zone = key, self._read(name)
        return self._zone

    def _read(self, name: str) -> tzinfo:
        try:
            if name:
                return ZoneInfo(name)
            with self._localtime.open("rb") as file:
                return ZoneInfo.from_file(file)
        except (OSError, ValueError, ZoneInfoNotFoundError):
            return UTC
