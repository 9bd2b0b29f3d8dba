"""Where the power comes from, by the kernel: mains, batteries, emergency supplies.

Owns: reading /sys/class/power_supply. Must not: count a mouse's battery, or take a laptop without
its battery for one that runs on it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from app.policy.snapshot import PowerFacts
from app.probes.files import read_number, read_text
from app.probes.polls import Pace

__all__ = ["SUPPLIES", "PowerProbe", "read_supplies"]

SUPPLIES: Final = Path("/sys/class/power_supply")
MOST_SUPPLIES: Final = 64


def read_supplies(root: Path = SUPPLIES) -> PowerFacts:
    """The facts of a folder of supplies.

    Raises:
        OSError: the folder is there and cannot be listed.
    """
    if not root.exists():
        return PowerFacts()
    is_plugged: list[bool] = []
    discharges, percents, on_ups = [], [], False
    for path in sorted(root.iterdir())[:MOST_SUPPLIES]:
        kind = (read_text(path / "type", 64) or "").lower()
        if (read_text(path / "scope", 64) or "").lower() == "device":
            continue
        if kind in ("mains", "usb", "wireless"):
            is_plugged.append(read_number(path / "online") == 1)
        elif kind == "ups":
            on_ups = on_ups or _discharges(path)
        elif kind == "battery" and read_number(path / "present") != 0:
            discharges.append(_discharges(path))
            percent = read_number(path / "capacity")
            if percent is not None and 0 <= percent <= 100:
                percents.append(percent)
    # What the batteries do decides; a charger that is too weak is no mains.
    on_battery = bool(discharges) and any(discharges) and not any(is_plugged)
    on_battery = on_battery or (bool(discharges) and bool(is_plugged) and not any(is_plugged))
    return PowerFacts(on_battery, min(percents, default=None), on_ups)


def _discharges(path: Path) -> bool:
    return (read_text(path / "status", 64) or "").lower() == "discharging"


class PowerProbe:
    """Looks at the supplies; `UPower` says what the kernel does not (`desktop/upower.py`)."""

    name = "power"
    source = "kernel"
    periods_s: dict[Pace, float]

    def __init__(self, root: Path = SUPPLIES) -> None:
        self.periods_s = {"off": 60.0, "waiting": 15.0, "lending": 5.0}
        self._root = root

    def look(self) -> PowerFacts:
        found = read_supplies(self._root)
        percent = found.battery_percent
        return replace(found, battery_percent=None if percent is None else float(percent))
