"""Which kind of network leads out, where no NetworkManager says it. Owns that one question."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from app.probes.files import read_text

__all__ = ["route_kind"]

ROUTES: Final = Path("/proc/net/route")
INTERFACES: Final = Path("/sys/class/net")


def route_kind(
    routes: Path = ROUTES, interfaces: Path = INTERFACES
) -> Literal["wired", "wireless", "other", "untold"]:
    """By the interface of the default route."""
    for line in (read_text(routes) or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 2 and fields[1] == "00000000" and "/" not in fields[0]:
            device = interfaces / fields[0]
            if (device / "wireless").exists() or (device / "phy80211").exists():
                return "wireless"
            return "wired" if (device / "device").exists() else "other"
    return "untold"
