"""Temperatures and fans of the kernel's hardware monitor.

Owns: reading /sys/class/hwmon by the names of the drivers that mean something to us. Must not:
judge a reading: one that cannot be true is passed on as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from app.policy.snapshot import Sensor
from app.probes.files import read_number, read_text

__all__ = ["HWMON", "Monitor", "monitors"]

HWMON: Final = Path("/sys/class/hwmon")
MOST_MONITORS: Final = 256
MOST_SENSORS: Final = 32

Part = Literal["core", "memory", "processor", "disk"]

_PARTS: Final[dict[str, Part]] = {
    "coretemp": "processor",
    "k10temp": "processor",
    "zenpower": "processor",
    "cpu_thermal": "processor",
    "nvme": "disk",
    "amdgpu": "core",
    "i915": "core",
    "xe": "core",
    "nouveau": "core",
    "radeon": "core",
}
_MEMORY_LABELS: Final = ("mem", "junction", "vram")
_WHOLE_LABELS: Final = ("Tctl", "Tdie", "Package", "Composite")
"""Of a processor or a disk these say it all; cores one by one are not read where one is there."""


@dataclass(frozen=True, slots=True)
class Monitor:
    """What one driver tells, in whole degrees. `address`: of its device on PCI, or empty.

    Args:
        limit_w, default_w: the most that it lets its card draw, now and as the maker set it.
    """

    driver: str
    address: str
    sensors: tuple[Sensor, ...]
    fan_rpm: int | None
    power_w: float | None
    limit_w: float | None = None
    default_w: float | None = None


def monitors(root: Path = HWMON) -> tuple[Monitor, ...]:
    """All monitors whose driver is known.

    Raises:
        OSError: the folder is there and cannot be listed.
    """
    if not root.exists():
        return ()
    found = []
    for path in sorted(root.iterdir())[:MOST_MONITORS]:
        driver = read_text(path / "name", 64) or ""
        if driver in _PARTS:
            found.append(_monitor(path, driver))
    return tuple(found)


def _monitor(path: Path, driver: str) -> Monitor:
    try:
        address = (path / "device").resolve(strict=True).name
    except OSError:
        address = ""
    fans = [read_number(fan) for fan in sorted(path.glob("fan*_input"))[:8]]
    turning = [fan for fan in fans if fan is not None]
    return Monitor(
        driver,
        address if ":" in address else "",
        _sensors(path, driver),
        max(turning, default=None),
        _watts(path, "power1_average", "power1_input"),
        _watts(path, "power1_cap", "power1_max"),
        _watts(path, "power1_cap_default", "power1_rated_max"),
    )


def _watts(path: Path, *names: str) -> float | None:
    """The first of these files that is there: amdgpu's name, then that of i915 and xe."""
    for name in names:
        microwatts = read_number(path / name)
        if microwatts is not None:
            return microwatts / 1e6
    return None


def _sensors(path: Path, driver: str) -> tuple[Sensor, ...]:
    labelled: list[tuple[str, int]] = []
    for file in sorted(path.glob("temp*_input"))[:MOST_SENSORS]:
        reading = read_number(file)
        if reading is not None:
            stem = file.name.removesuffix("_input")
            labelled.append((read_text(path / f"{stem}_label", 64) or stem, reading))
    whole = [each for each in labelled if each[0].startswith(_WHOLE_LABELS)]
    part = _PARTS[driver]
    return tuple(
        Sensor(f"{driver} {label}", _part(part, label), float(round(milli / 1000)))
        for label, milli in whole or labelled
    )


def _part(part: Part, label: str) -> Part:
    return "memory" if part == "core" and label.startswith(_MEMORY_LABELS) else part
